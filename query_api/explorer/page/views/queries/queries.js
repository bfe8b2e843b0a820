import { html } from 'htm/preact';

export function QueriesView() {
  return html`<p>Queries</p>`;
}
