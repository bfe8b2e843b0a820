/** A session that leads to its page. */
import { html } from 'htm/preact';
import { href } from '../app/address.js';

/** @param {{id: string | undefined}} props */
export function SessionLink({ id }) {
  return id ? html`<a href=${href(['sessions', id])}>${id}</a>` : null;
}
