/** The width of the first column of a list or a waterfall: dragged or moved by arrow keys, and kept in this browser. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';

const [WIDTH_MIN, WIDTH_MAX, STEP] = [120, 1_200, 20];

/**
 * @param {string} list  Under this name the width is kept.
 * @returns {[number | null, (width: number | null) => void]}  Pixels; `null` until a person chooses.
 */
export function useNameWidth(list) {
  const item = `clearspan-width-${list}`;
  const [width, setWidth] = useState(() => read(item));
  /** @param {number | null} chosen */
  const change = (chosen) => {
    const bounded = chosen === null ? null : Math.round(Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, chosen)));
    setWidth(bounded);
    try {
      if (bounded === null) localStorage.removeItem(item);
      else localStorage.setItem(item, String(bounded));
    } catch { /* the choice lives until the page is closed */ }
  };
  return [width, change];
}

/** @param {string} item  @returns {number | null} */
function read(item) {
  try {
    return Number(localStorage.getItem(item)) || null;
  } catch {
    return null;
  }
}

/** The edge to drag. Its parent is the cell whose width changes. @param {{width: number | null, change: (width: number | null) => void}} props */
export function NameResizer({ width, change }) {
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
  return html`<span class="resizer" role="separator" aria-orientation="vertical" aria-label="Width of the names" aria-valuemin=${WIDTH_MIN}
    aria-valuemax=${WIDTH_MAX} aria-valuenow=${width ?? WIDTH_MIN} aria-valuetext=${width ? `${width} pixels` : 'automatic'} tabindex="0"
    title="Drag to change the width, double-click to reset it" onKeyDown=${onKeyDown} onPointerMove=${drag}
    onPointerDown=${(/** @type {PointerEvent} */ event) => { event.preventDefault(); /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId); }}
    onDblClick=${() => change(null)}></span>`;
}

/** @param {Event} event */
function cellOf(event) {
  return /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (event.currentTarget).parentElement);
}
