/** The whole trace in a strip, drawn on a canvas. Dragging chooses the time range that the waterfall shows. */
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { duration } from '../../app/format.js';
import { colorOf, theme } from '../../app/theme.js';
import { walk } from './outline.js';

const HEIGHT = 56;
const DRAG_MIN = 4;

/**
 * @param {{outline: import('./outline.js').Outline, zoom: {from: number, to: number}, setZoom: (zoom: {from: number, to: number}) => void}} props
 */
export function Minimap({ outline, zoom, setZoom }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [drag, setDrag] = useState(/** @type {{from: number, to: number} | null} */ (null));
  const appearance = theme.value;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => draw(element, outline));
    observer.observe(element);
    draw(element, outline);
    return () => observer.disconnect();
  }, [outline, appearance]);

  /** @param {PointerEvent} event */
  const share = (event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  /** @param {PointerEvent} event */
  const begin = (event) => {
    /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    setDrag({ from: share(event), to: share(event) });
  };
  /** @param {PointerEvent} event */
  const end = (event) => {
    if (!drag) return;
    const [from, to] = [Math.min(drag.from, share(event)), Math.max(drag.from, share(event))];
    const width = /** @type {HTMLElement} */ (event.currentTarget).clientWidth;
    if ((to - from) * width >= DRAG_MIN) setZoom({ from: from * outline.end, to: to * outline.end });
    setDrag(null);
  };
  const visible = drag
    ? { from: Math.min(drag.from, drag.to), to: Math.max(drag.from, drag.to) }
    : { from: zoom.from / outline.end, to: zoom.to / outline.end };
  const isZoomed = zoom.from > 0 || zoom.to < outline.end;
  return html`<div class="minimap" title="Drag to zoom, double-click to see everything"
      onPointerDown=${begin} onPointerMove=${(/** @type {PointerEvent} */ event) => drag && setDrag({ ...drag, to: share(event) })}
      onPointerUp=${end} onDblClick=${() => setZoom({ from: 0, to: outline.end })}>
    <canvas ref=${canvas} height=${HEIGHT} aria-hidden="true"></canvas>
    <div class="minimap-out" style=${{ left: 0, width: `${visible.from * 100}%` }}></div>
    <div class="minimap-out" style=${{ right: 0, width: `${(1 - visible.to) * 100}%` }}></div>
    ${isZoomed && html`<button class="minimap-reset" onPointerDown=${(/** @type {Event} */ event) => event.stopPropagation()}
      onClick=${() => setZoom({ from: 0, to: outline.end })}>Show all of ${duration(outline.end)}</button>`}
  </div>`;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {import('./outline.js').Outline} outline
 */
function draw(canvas, outline) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = width * ratio;
  canvas.height = HEIGHT * ratio;
  const context = canvas.getContext('2d');
  if (!context || outline.end <= 0) return;
  context.scale(ratio, ratio);
  const variables = [['', '--bar'], ...['error', 'agent', 'chat', 'tool', 'embedding'].map((name) => [name, `--${name}`])];
  const colors = new Map(variables.map(([name = '', variable = '']) => [name, colorOf(canvas, variable)]));
  const order = walk(outline.roots, outline.children);
  const rowHeight = Math.max(1, Math.min(4, (HEIGHT - 6) / order.length));
  order.forEach((index, place) => {
    context.fillStyle = colors.get(outline.isError(index) ? 'error' : outline.text('span_type', index)) ?? colors.get('') ?? 'gray';
    const x = ((outline.start[index] ?? 0) / outline.end) * width;
    const y = 3 + (place / order.length) * Math.min(HEIGHT - 6, order.length * 4);
    context.fillRect(x, y, Math.max(1, ((outline.duration[index] ?? 0) / outline.end) * width), Math.max(0.7, rowHeight * 0.8));
  });
}
