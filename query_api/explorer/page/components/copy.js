/** A button that copies a text. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';

/** @param {{text: string | (() => string), label?: string}} props */
export function CopyButton({ text, label = 'Copy' }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === 'string' ? text : text());
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button class="quiet" onClick=${copy}>${done ? 'Copied' : label}</button>`;
}
