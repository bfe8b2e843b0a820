import { html } from 'htm/preact';

export function SessionsView() {
  return html`<p>Sessions</p>`;
}
