/** By how much a figure changed. */
import { html } from 'htm/preact';

const LARGE = 0.2;

/**
 * @param {{now: number | undefined, before: number | undefined, isWorse?: boolean}} props
 *   Nothing is shown unless both figures have a value. `isWorse` if a higher figure is worse: then a large rise is marked.
 */
export function Change({ now, before, isWorse = false }) {
  if (now === undefined || !before) return null;
  const share = (now - before) / before;
  const text = Math.abs(share) < 0.005 ? '±0 %' : `${share > 0 ? '+' : '−'}${Math.abs(share * 100).toFixed(0)} %`;
  return html`<span class="change-of ${isWorse && share > LARGE ? 'worse' : ''}">${text}</span>`;
}
