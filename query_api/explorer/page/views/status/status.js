import { html } from 'htm/preact';

export function StatusView() {
  return html`<p>Status</p>`;
}
