/** What a model thought before it answered: apart from the answer, and closed at first. */
import { html } from 'htm/preact';
import { textOf } from '../../app/spans.js';
import { Markdown } from '../../components/markdown.js';

/** @param {{text: unknown}} props  Empty if the provider keeps it to itself. */
export function Reasoning({ text }) {
  const thoughts = textOf(text);
  if (!thoughts) return html`<p class="reasoning">The model thought before it answered; its provider does not show what.</p>`;
  return html`<details class="reasoning"><summary>Thinking</summary><${Markdown} text=${thoughts} /></details>`;
}
