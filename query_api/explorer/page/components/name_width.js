/** Widths of the columns of a list, and of the names of a waterfall: dragged or moved by arrow keys, and kept in this browser. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { remember, remembered } from '../app/remembered.js';

const [WIDTH_MIN, NAME_WIDTH_MIN, WIDTH_MAX, STEP] = [48, 120, 1_200, 20];
const COLUMNS_MAX = 100;

/** @typedef {Record<string, number>} Widths  Pixels by the names of columns; the others have their own width. */

/**
 * @param {string} list  Under this name the width is kept.
 * @returns {[number | null, (width: number | null) => void]}  Pixels; `null` until a person chooses.
 */
export function useNameWidth(list) {
  const item = `width-${list}`;
  const [width, setWidth] = useState(() => widthIn(remembered(item)));
  return [width, (chosen) => {
    const bounded = chosen === null ? null : boundedWidth(chosen, NAME_WIDTH_MIN);
    setWidth(bounded);
    remember(item, bounded);
  }];
}

/**
 * @param {string} list  Under this name the widths are kept.
 * @returns {[Widths, (column: string, width: number | null) => void]}
 */
export function useWidths(list) {
  const item = `widths-${list}`;
  const [widths, setWidths] = useState(() => widthsIn(remembered(item)));
  return [widths, (column, width) => {
    const { [column]: _before, ...others } = widths;
    const changed = width === null ? others : { ...others, [column]: boundedWidth(width, WIDTH_MIN) };
    setWidths(changed);
    remember(item, Object.keys(changed).length ? changed : null);
  }];
}

/** @param {number} width @param {number} least */
function boundedWidth(width, least) {
  return Math.round(Math.min(WIDTH_MAX, Math.max(least, width)));
}

/** @param {unknown} value  @returns {number | null} */
function widthIn(value) {
  return typeof value === 'number' && Number.isFinite(value) ? boundedWidth(value, WIDTH_MIN) : null;
}

/** @param {unknown} value  @returns {Widths} */
function widthsIn(value) {
  if (value === null || typeof value !== 'object') return {};
  const pairs = Object.entries(value).slice(0, COLUMNS_MAX).map(([name, width]) => [name, widthIn(width)]);
  return Object.fromEntries(pairs.filter(([, width]) => width !== null));
}

/**
 * The edge to drag. Its parent is the cell whose width changes.
 * @param {{width: number | null, change: (width: number | null) => void, of?: string}} props  `of` is what has the width.
 */
export function Resizer({ width, change, of = 'the names' }) {
  const widthOf = (/** @type {Event} */ event) => cellOf(event).getBoundingClientRect().width;
  /** @param {PointerEvent} event */
  const drag = (event) => {
    const handle = /** @type {HTMLElement} */ (event.currentTarget);
    if (handle.hasPointerCapture(event.pointerId)) change(event.clientX - cellOf(event).getBoundingClientRect().left);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    change(widthOf(event) + step);
  };
  return html`<span class="resizer" role="separator" aria-orientation="vertical" aria-label="Width of ${of}" aria-valuemin=${WIDTH_MIN}
    aria-valuemax=${WIDTH_MAX} aria-valuenow=${width ?? WIDTH_MIN} aria-valuetext=${width ? `${width} pixels` : 'automatic'} tabindex="0"
    title="Drag to change the width, double-click to reset it" onKeyDown=${onKeyDown} onPointerMove=${drag}
    onPointerDown=${(/** @type {PointerEvent} */ event) => { event.preventDefault(); /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId); }}
    onDblClick=${() => change(null)}></span>`;
}

/** @param {Event} event */
function cellOf(event) {
  return /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (event.currentTarget).parentElement);
}
