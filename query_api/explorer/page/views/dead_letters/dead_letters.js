import { html } from 'htm/preact';

export function DeadLettersView() {
  return html`<p>DeadLetters</p>`;
}
