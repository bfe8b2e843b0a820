/** One row of the waterfall: a name in the tree, and a bar in time with what the span took. */
import { html } from 'htm/preact';
import { cost, duration, number, short } from '../../app/format.js';

const ON_CRITICAL_PATH = 'On the critical path: the trace takes as long as the spans in bold together';

/** Of a label, in pixels: an estimate that is never too small. */
const CHARACTER_WIDTH = 6.8;
const GAP = 6;

/**
 * @param {{outline: import('./outline.js').Outline, index: number, zoom: import('./waterfall.js').Zoom, top: number, depth: number,
 *   isClosed: boolean, isSelected: boolean, isMatch: boolean, toggle: (index: number) => void, select: (index: number) => void,
 *   hasServices: boolean, trackWidth: number}} props
 */
export function Row({ outline, index, zoom, top, depth, isClosed, isSelected, isMatch, toggle, select, hasServices, trackWidth }) {
  const type = outline.text('span_type', index);
  const failed = outline.isError(index);
  const below = outline.size[index] ?? 0;
  const isCritical = outline.isCritical[index] === 1;
  const isExtraRoot = depth === 0 && outline.isOrphan[index] !== 1 && outline.roots[0] !== index;
  const classes = `wf-row ${isSelected ? 'selected' : ''} ${failed ? 'failed' : ''} ${isCritical ? 'critical' : ''} ${isMatch ? 'match' : ''}`;
  return html`<div class=${classes} role="treeitem" aria-selected=${isSelected} aria-level=${depth + 1}
      aria-expanded=${below ? !isClosed : null} style=${{ transform: `translateY(${top}px)` }} onClick=${() => select(index)}>
    <span class="wf-name" style=${{ paddingLeft: `${Math.min(depth, 40) * 14 + 6}px` }}>
      ${below > 0
        ? html`<button class="wf-toggle" tabindex="-1" aria-label=${isClosed ? 'Open' : 'Close'}
            onClick=${(/** @type {Event} */ event) => { event.stopPropagation(); toggle(index); }}>${isClosed ? '▸' : '▾'}</button>`
        : html`<span class="wf-toggle"></span>`}
      <span class="wf-dot type-${type}" title=${type || 'span'}></span>
      <bdi class="wf-text" title=${isCritical ? ON_CRITICAL_PATH : null}>${outline.text('span_name', index) || '(no name)'}</bdi>
      ${outline.isOrphan[index] === 1 && html`<span class="wf-mark" title="Its parent is not stored">orphan</span>`}
      ${isExtraRoot && html`<span class="wf-mark" title="It has no parent either">another root</span>`}
      ${failed && html`<span class="error-mark">failed</span>`}
      ${outline.isRunning[index] === 1 && html`<span class="wf-mark running-mark" title="Its end is not stored">running</span>`}
      ${isClosed && below > 0 && html`<span class="soft">${number(below)} below${outline.errorsBelow[index] ? html`, <span class="error-text">${number(outline.errorsBelow[index] ?? 0)} failed</span>` : ''}</span>`}
      ${hasServices && html`<span class="soft wf-service">${outline.text('service', index)}</span>`}
    </span>
    <${Bar} outline=${outline} index=${index} zoom=${zoom} type=${type} failed=${failed} trackWidth=${trackWidth} />
  </div>`;
}

/**
 * @param {{outline: import('./outline.js').Outline, index: number, zoom: import('./waterfall.js').Zoom, type: string,
 *   failed: boolean, trackWidth: number}} props
 */
function Bar({ outline, index, zoom, type, failed, trackWidth }) {
  const width = zoom.to - zoom.from;
  const [start, took] = [outline.start[index] ?? 0, outline.duration[index] ?? 0];
  const from = (start - zoom.from) / width;
  const to = from + took / width;
  if (to < 0 || from > 1) return html`<span class="wf-track"></span>`;
  const [left, right] = [Math.max(0, from), Math.min(1, to)];
  const [tokens, usd] = [outline.tokens[index], outline.cost[index]];
  const running = outline.isRunning[index] === 1;
  const parts = [running ? `running for ${duration(took) || '0 ms'}` : duration(took), tokens != null ? `${short(tokens)} tokens` : '', usd ? cost(usd) : ''].filter(Boolean);
  const whole = parts.join(' · ');
  const { text, style } = placed(whole, left, right, trackWidth) ?? placed(parts[0] ?? '', left, right, trackWidth)
    ?? { text: parts[0], style: { right: '0' } };
  return html`<span class="wf-track" title=${whole}>
    <span class="wf-bar type-${type} ${failed ? 'failed' : ''} ${running ? 'running' : ''}" style=${{ left: `${left * 100}%`, width: `max(2px, ${Math.max(0, right - left) * 100}%)` }}></span>
    <span class="wf-label" style=${style}>${text}</span>
  </span>`;
}

/**
 * Where a label is not cut off: after its bar, before it, or on it; `null` if it fits nowhere.
 * @param {string} text
 * @param {number} left  Share of the track.
 * @param {number} right
 * @param {number} trackWidth  Pixels.
 */
function placed(text, left, right, trackWidth) {
  const needed = text.length * CHARACTER_WIDTH + 2 * GAP;
  if ((1 - right) * trackWidth >= needed) return { text, style: { left: `calc(${right * 100}% + ${GAP}px)` } };
  if (left * trackWidth >= needed) return { text, style: { right: `calc(${(1 - left) * 100}% + ${GAP}px)` } };
  if ((right - left) * trackWidth >= needed) return { text, style: { left: `calc(${left * 100}% + ${GAP}px)`, color: 'var(--card)' } };
  return null;
}

/** @param {{zoom: import('./waterfall.js').Zoom}} props */
export function Axis({ zoom }) {
  const shares = [0, 0.25, 0.5, 0.75, 1];
  return html`<span class="wf-axis">${shares.map((share) => html`<span style=${{ left: `${share * 100}%` }}>${duration(zoom.from + share * (zoom.to - zoom.from)) || '0'}</span>`)}</span>`;
}
