/** A text on one line of a list; what does not fit is in its title. */
import { html } from 'htm/preact';

/** @param {{text: string | undefined}} props */
export function InShort({ text }) {
  return text ? html`<bdi class="in-short" title=${text}>${text}</bdi>` : null;
}
