/** By how much a figure changed. */
import { html } from 'htm/preact';
import { number } from '../app/format.js';

const LARGE = 0.2;

/** From here on, how many times a figure is another one says more than percent. */
const TIMES = 10;

/**
 * @param {{now: number | undefined, before: number | undefined, isWorse?: boolean}} props
 *   Nothing is shown unless both figures have a value. `isWorse` if a higher figure is worse: then a large rise is marked.
 */
export function Change({ now, before, isWorse = false }) {
  if (now === undefined || !before) return null;
  const share = (now - before) / before;
  return html`<span class="change-of ${isWorse && share > LARGE ? 'worse' : ''}">${textOf(share)}</span>`;
}

/** @param {number} share */
function textOf(share) {
  if (Math.abs(share) < 0.005) return '±0 %';
  if (share + 1 >= TIMES) return `${number(Math.round(share + 1))} ×`;
  return `${share > 0 ? '+' : '−'}${Math.abs(share * 100).toFixed(0)} %`;
}
