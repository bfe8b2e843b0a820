/**
 * The spans of a trace as a tree with a bar in time for each. Only visible rows are in the document: 100,000 spans scroll
 * smoothly. Arrow keys walk the tree.
 */
import { html } from 'htm/preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { param } from '../../app/address.js';
import { Resizer, useNameWidth } from '../../components/name_width.js';
import { isTyping } from '../../components/shell.js';
import { useVisibleRows } from '../../components/visible_rows.js';
import { ancestors, walk } from './outline.js';
import { Axis, Row } from './waterfall_row.js';

const ROW_HEIGHT = 28;
const OPEN_AT_FIRST = 2_000;
const ZOOM_STEP = 1.25;

/** @typedef {import('./outline.js').Outline} Outline */
/** @typedef {{from: number, to: number}} Zoom  Milliseconds after the start of the trace. */

/**
 * @param {{outline: Outline, zoom: Zoom, setZoom: (zoom: Zoom) => void, selected: number, asked: number,
 *   select: (index: number) => void, matching: Set<number>}} props  The selected row is scrolled to again when `asked` changes.
 */
export function Waterfall({ outline, zoom, setZoom, selected, asked, select, matching }) {
  const [closed, setClosed] = useState(() => closedAtFirst(outline, selected));
  const rows = useMemo(() => walk(outline.roots, outline.children, (index) => closed.has(idOf(outline, index))), [outline, closed]);
  const depths = useMemo(() => depthsOf(outline, rows), [rows]);
  const hasServices = useMemo(() => countServices(outline) > 1, [outline]);
  const [nameWidth, setNameWidth] = useNameWidth('waterfall');
  const [trackWidth, setTrackWidth] = useState(400);
  const { scroller, first, last, onScroll, scrollToRow } = useVisibleRows(rows.length, ROW_HEIGHT, '.wf-head');

  const isShown = useRef(false); // the row was scrolled to: closing its branch leaves it closed
  useEffect(() => { isShown.current = false; }, [selected, asked, param('fold')]); // not when a running trace is loaded again
  useEffect(() => {
    if (isShown.current || selected === -1) return;
    const place = rows.indexOf(selected);
    if (place === -1) setClosed(without(closed, idsOf(outline, ancestors(outline, selected)))); // and scroll when its row is there
    else {
      isShown.current = true;
      scrollToRow(place);
    }
  }, [selected, asked, rows]);
  useLayoutEffect(() => {
    const track = scroller.current?.querySelector('.wf-axis');
    if (!track) return undefined;
    const observer = new ResizeObserver(() => setTrackWidth(track.clientWidth));
    observer.observe(track);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });

  /** @param {number} index */
  const toggle = (index) => {
    const changed = new Set(closed);
    if (!changed.delete(idOf(outline, index))) changed.add(idOf(outline, index));
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
      if (outline.children[selected]?.length && !closed.has(idOf(outline, selected))) toggle(selected);
      else if (outline.parent[selected] !== -1) select(outline.parent[selected] ?? -1);
    } else if (event.key === 'ArrowRight' && selected !== -1) {
      if (closed.has(idOf(outline, selected))) toggle(selected);
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
      style=${nameWidth ? { '--name-width': `${nameWidth}px` } : {}} onScroll=${onScroll} onWheel=${onWheel}>
    <div class="wf-head">
      <span class="wf-tools">
        <button class="quiet" onClick=${() => setClosed(new Set())}>Open all</button>
        <button class="quiet" onClick=${() => setClosed(parents(outline))}>Close all</button>
        <${Resizer} width=${nameWidth} change=${setNameWidth} />
      </span>
      <${Axis} zoom=${zoom} />
    </div>
    <div class="wf-rows" role="tree" aria-label="Spans of the trace" style=${{ height: `${rows.length * ROW_HEIGHT}px` }}>
      ${rows.slice(first, last).map((index, place) => html`<${Row} key=${idOf(outline, index)} outline=${outline} index=${index} zoom=${zoom}
        top=${(first + place) * ROW_HEIGHT} depth=${depths[first + place]} isClosed=${closed.has(idOf(outline, index))}
        isSelected=${index === selected} isMatch=${matching.has(index)} toggle=${toggle} select=${select} hasServices=${hasServices} trackWidth=${trackWidth} />`)}
    </div>
  </div>`;
}

/**
 * A large trace opens with its first two levels only, and the path to the selected span.
 * @param {Outline} outline
 * @param {number} selected
 */
function closedAtFirst(outline, selected) {
  if (outline.count <= OPEN_AT_FIRST) return new Set();
  const closed = parents(outline);
  const opened = [...outline.roots, ...(selected === -1 ? [] : ancestors(outline, selected))];
  return without(closed, idsOf(outline, opened));
}

/** The id of a span, which stays the same when the trace is loaded again. @param {Outline} outline @param {number} index */
function idOf(outline, index) {
  return outline.spanId[index] ?? '';
}

/** @param {Outline} outline @param {number[]} indices */
function idsOf(outline, indices) {
  return indices.map((index) => idOf(outline, index));
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
  for (let index = 0; index < outline.count; index += 1) if (outline.children[index]?.length) found.add(idOf(outline, index));
  return found;
}

/**
 * @param {Set<string>} set
 * @param {string[]} members
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
