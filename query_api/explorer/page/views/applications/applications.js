import { html } from 'htm/preact';

export function ApplicationsView() {
  return html`<p>Applications</p>`;
}
