/** Who committed a revision. */
import { html } from 'htm/preact';

/** @param {{id?: string}} props */
export function Author({ id }) {
  return id ? html`<code class="soft" title=${id}>${id.slice(-6)}</code>` : null;
}
