/**
 * The spans of a trace as a tree with a bar in time for each. Only visible rows are in the document: 100,000 spans scroll
 * smoothly. Arrow keys walk the tree.
 */
import { html } from 'htm/preact';
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { cost, duration, number, short } from '../../app/format.js';
import { isTyping } from '../../components/shell.js';
import { useVisibleRows } from '../../components/visible_rows.js';
import { ancestors, walk } from './outline.js';

const ROW_HEIGHT = 28;
const OPEN_AT_FIRST = 2_000;
const ZOOM_STEP = 1.25;

/** @typedef {import('./outline.js').Outline} Outline */
/** @typedef {{from: number, to: number}} Zoom  Milliseconds after the start of the trace. */

/**
 * @param {{outline: Outline, zoom: Zoom, setZoom: (zoom: Zoom) => void, selected: number, select: (index: number) => void}} props
 */
export function Waterfall({ outline, zoom, setZoom, selected, select }) {
  const [closed, setClosed] = useState(() => closedAtFirst(outline, selected));
  const rows = useMemo(() => walk(outline.roots, outline.children, (index) => closed.has(index)), [outline, closed]);
  const depths = useMemo(() => depthsOf(outline, rows), [rows]);
  const hasServices = useMemo(() => countServices(outline) > 1, [outline]);
  const { scroller, first, last, onScroll, scrollToRow } = useVisibleRows(rows.length, ROW_HEIGHT, '.wf-head');

  useEffect(() => {
    const place = rows.indexOf(selected);
    if (place !== -1) scrollToRow(place);
    else if (selected !== -1) setClosed(without(closed, ancestors(outline, selected)));
  }, [selected, outline]);
  useLayoutEffect(() => {
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });

  /** @param {number} index */
  const toggle = (index) => {
    const changed = new Set(closed);
    if (!changed.delete(index)) changed.add(index);
    setClosed(changed);
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = rows.indexOf(selected);
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      select(rows[Math.min(rows.length - 1, Math.max(0, place + step))] ?? -1);
    } else if (event.key === 'ArrowLeft' && selected !== -1) {
      if (outline.children[selected]?.length && !closed.has(selected)) toggle(selected);
      else if (outline.parent[selected] !== -1) select(outline.parent[selected] ?? -1);
    } else if (event.key === 'ArrowRight' && selected !== -1) {
      if (closed.has(selected)) toggle(selected);
      else if (outline.children[selected]?.length) select(outline.children[selected]?.[0] ?? -1);
    } else if (event.key === 'Escape') select(-1);
  };
  /** @param {WheelEvent} event */
  const onWheel = (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = scroller.current?.querySelector('.wf-track')?.getBoundingClientRect();
    if (!box) return;
    const at = zoom.from + (zoom.to - zoom.from) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const factor = event.deltaY > 0 ? ZOOM_STEP : 1 / ZOOM_STEP;
    setZoom({ from: Math.max(0, at - (at - zoom.from) * factor), to: Math.min(outline.end, at + (zoom.to - at) * factor) });
  };
  return html`<div class="waterfall" ref=${scroller} role="region" aria-label="Waterfall" tabindex="0"
      onScroll=${onScroll} onWheel=${onWheel}>
    <div class="wf-head">
      <span class="wf-tools">
        <button class="quiet" onClick=${() => setClosed(new Set())}>Open all</button>
        <button class="quiet" onClick=${() => setClosed(parents(outline))}>Close all</button>
      </span>
      <${Axis} zoom=${zoom} />
    </div>
    <div class="wf-rows" role="tree" aria-label="Spans of the trace" style=${{ height: `${rows.length * ROW_HEIGHT}px` }}>
      ${rows.slice(first, last).map((index, place) => html`<${Row} key=${index} outline=${outline} index=${index} zoom=${zoom}
        top=${(first + place) * ROW_HEIGHT} depth=${depths[first + place]} isClosed=${closed.has(index)}
        isSelected=${index === selected} toggle=${toggle} select=${select} hasServices=${hasServices} />`)}
    </div>
  </div>`;
}

/** @param {any} props */
function Row({ outline, index, zoom, top, depth, isClosed, isSelected, toggle, select, hasServices }) {
  const type = outline.text('span_type', index);
  const failed = outline.text('status_code', index) === 'STATUS_CODE_ERROR';
  const below = outline.size[index];
  const classes = `wf-row ${isSelected ? 'selected' : ''} ${failed ? 'failed' : ''} ${outline.isCritical[index] ? 'critical' : ''}`;
  return html`<div class=${classes} role="treeitem" aria-selected=${isSelected} aria-level=${depth + 1}
      aria-expanded=${below ? !isClosed : null} style=${{ transform: `translateY(${top}px)` }} onClick=${() => select(index)}>
    <span class="wf-name" style=${{ paddingLeft: `${Math.min(depth, 40) * 14 + 6}px` }}>
      ${below > 0
        ? html`<button class="wf-toggle" tabindex="-1" aria-label=${isClosed ? 'Open' : 'Close'}
            onClick=${(/** @type {Event} */ event) => { event.stopPropagation(); toggle(index); }}>${isClosed ? '▸' : '▾'}</button>`
        : html`<span class="wf-toggle"></span>`}
      <span class="wf-dot type-${type}" title=${type || 'span'}></span>
      <bdi class="wf-text">${outline.text('span_name', index) || '(no name)'}</bdi>
      ${outline.isOrphan[index] === 1 && html`<span class="wf-mark" title="Its parent is not stored">orphan</span>`}
      ${failed && html`<span class="error-mark">failed</span>`}
      ${isClosed && below > 0 && html`<span class="soft">${number(below)} below${outline.errorsBelow[index] ? html`, <span class="error-text">${number(outline.errorsBelow[index])} failed</span>` : ''}</span>`}
      ${hasServices && html`<span class="soft wf-service">${outline.text('service', index)}</span>`}
    </span>
    <${Bar} outline=${outline} index=${index} zoom=${zoom} type=${type} failed=${failed} />
  </div>`;
}

/** @param {any} props */
function Bar({ outline, index, zoom, type, failed }) {
  const width = zoom.to - zoom.from;
  const from = ((outline.start[index] - zoom.from) / width) * 100;
  const to = from + (outline.duration[index] / width) * 100;
  const [left, right] = [Math.max(0, from), Math.min(100, to)];
  const [tokens, usd] = [outline.tokens[index], outline.cost[index]];
  const label = [duration(outline.duration[index]), tokens != null ? `${short(tokens)} tokens` : '', usd ? cost(usd) : ''].filter(Boolean).join(' · ');
  const isVisible = to >= 0 && from <= 100;
  const place = right < 62 ? { left: `calc(${Math.max(right, left)}% + 6px)` } : { right: `calc(${100 - left}% + 6px)` };
  const inside = left < 38 && right >= 62 ? { left: `calc(${left}% + 6px)`, color: 'var(--card)' } : place;
  return html`<span class="wf-track">
    ${isVisible && html`<span class="wf-bar type-${type} ${failed ? 'failed' : ''}" style=${{ left: `${left}%`, width: `max(2px, ${Math.max(0, right - left)}%)` }}></span>
    <span class="wf-label" style=${inside}>${label}</span>`}
  </span>`;
}

/** @param {{zoom: Zoom}} props */
function Axis({ zoom }) {
  const shares = [0, 0.25, 0.5, 0.75, 1];
  return html`<span class="wf-axis">${shares.map((share) => html`<span style=${{ left: `${share * 100}%` }}>${duration(zoom.from + share * (zoom.to - zoom.from)) || '0'}</span>`)}</span>`;
}

/**
 * A large trace opens with its first two levels only, and the path to the selected span.
 * @param {Outline} outline
 * @param {number} selected
 */
function closedAtFirst(outline, selected) {
  if (outline.count <= OPEN_AT_FIRST) return new Set();
  const closed = parents(outline);
  for (const root of outline.roots) closed.delete(root);
  return without(closed, selected === -1 ? [] : ancestors(outline, selected));
}

/** @param {Outline} outline */
function countServices(outline) {
  const found = new Set();
  for (let index = 0; index < outline.count && found.size < 2; index += 1) found.add(outline.text('service', index));
  return found.size;
}

/** @param {Outline} outline */
function parents(outline) {
  const found = new Set();
  for (let index = 0; index < outline.count; index += 1) if (outline.children[index]?.length) found.add(index);
  return found;
}

/**
 * @param {Set<number>} set
 * @param {number[]} members
 */
function without(set, members) {
  const copy = new Set(set);
  for (const member of members) copy.delete(member);
  return copy;
}

/**
 * @param {Outline} outline
 * @param {number[]} rows  Parents before children.
 */
function depthsOf(outline, rows) {
  const depthOf = new Int32Array(outline.count);
  return rows.map((index) => {
    const parent = outline.parent[index] ?? -1;
    const depth = parent === -1 ? 0 : (depthOf[parent] ?? 0) + 1;
    depthOf[index] = depth;
    return depth;
  });
}
