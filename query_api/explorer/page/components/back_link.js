/** A link to the list from which a view was opened, as the list was then. */
import { html } from 'htm/preact';
import { listBefore } from '../app/address.js';

/** @param {{to: string[]}} props  The views that it may lead to, the usual one first. */
export function BackLink({ to }) {
  const { target, name } = listBefore(to);
  return html`<a class="quiet" href=${target} aria-label="Back to the ${name.replace('-', ' ')}">←</a>`;
}
