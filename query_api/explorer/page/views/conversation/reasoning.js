/** What a model thought before it answered: apart from the answer, and closed at first. */
import { html } from 'htm/preact';
import { LongText } from '../../components/json_tree.js';

/** @param {{text: unknown}} props */
export function Reasoning({ text }) {
  return html`<details class="reasoning"><summary>Reasoning</summary><p class="text"><${LongText} text=${text} /></p></details>`;
}
