/**
 * A long list with columns. Only the visible rows are in the document, so that a hundred thousand scroll smoothly.
 * Arrow keys, `j` and `k` select a row, Enter opens it.
 */
import { html } from 'htm/preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { useVisibleRows } from './visible_rows.js';

export const ROW_HEIGHT = 34;

/**
 * @template T
 * @typedef {{name: string, title: string, width: string, cell: (row: T) => any, numeric?: boolean, always?: boolean}} Column
 */

/**
 * @template T
 * @param {{rows: readonly T[], columns: Column<T>[], keyOf: (row: T) => string, hrefOf?: (row: T) => string,
 *   open?: (row: T) => void, isSelected?: (row: T) => boolean, classOf?: (row: T) => string, more?: () => void,
 *   footer?: any, label: string}} props
 */
export function Table({ rows, columns, keyOf, hrefOf, open, isSelected, classOf, more, footer, label }) {
  const { scroller, first, last, onScroll, scrollToRow } = useVisibleRows(rows.length, ROW_HEIGHT, '.row.head');
  const [cursor, setCursor] = useState(-1);
  useEffect(() => { if (last >= rows.length) more?.(); }, [last, rows.length, more]);

  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 15, PageUp: -15 }[event.key];
    if (step !== undefined && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      move(Math.min(rows.length - 1, Math.max(0, cursor + step)));
    }
    const row = rows[cursor];
    if (event.key === 'Enter' && row && (event.target === scroller.current || event.target === document.body)) open?.(row);
  };
  useLayoutEffect(() => {
    // The keys also work before anything has the focus, as on a page that was just opened.
    /** @param {KeyboardEvent} event */
    const onPageKey = (event) => { if (event.target === document.body) onKeyDown(event); };
    addEventListener('keydown', onPageKey);
    return () => removeEventListener('keydown', onPageKey);
  });
  /** @param {number} index */
  const move = (index) => {
    setCursor(index);
    scrollToRow(index);
  };
  const template = columns.map((column) => column.width).join(' ');
  return html`<div class="scroller" ref=${scroller} tabindex="0" role="region" aria-label=${label}
      onScroll=${onScroll} onKeyDown=${onKeyDown}>
    <div class="table" role="table" aria-label=${label} aria-rowcount=${rows.length}>
    <div class="row head" role="row" style=${{ gridTemplateColumns: template }}>
      ${columns.map((column) => html`<span role="columnheader" class=${cellClass(column)}>${column.title}</span>`)}
    </div>
    <div class="rows" role="rowgroup" style=${{ height: `${rows.length * ROW_HEIGHT}px` }}>
      ${rows.slice(first, last).map((row, index) => {
        const number = first + index;
        const selected = isSelected?.(row) || number === cursor;
        return html`<div key=${keyOf(row)} role="row" aria-rowindex=${number + 1} aria-selected=${Boolean(selected)}
            class="row ${selected ? 'selected' : ''} ${classOf?.(row) ?? ''}"
            style=${{ transform: `translateY(${number * ROW_HEIGHT}px)`, gridTemplateColumns: template }}
            onClick=${(/** @type {MouseEvent} */ event) => { if (!event.defaultPrevented && !isLink(event)) { setCursor(number); open?.(row); } }}>
          ${columns.map((column, place) => html`<span role="cell" class=${cellClass(column)}>
            ${place === 0 && hrefOf ? html`<a href=${hrefOf(row)} tabindex="-1">${column.cell(row)}</a>` : column.cell(row)}
          </span>`)}
        </div>`;
      })}
    </div></div>
    ${footer}
  </div>`;
}

/** @param {Column<any>} column */
function cellClass(column) {
  return `c-${column.name}${column.numeric ? ' numeric' : ''}${column.always ? ' always' : ''}`;
}

/** @param {MouseEvent} event */
function isLink(event) {
  return event.target instanceof Element && event.target.closest('a, button') !== null;
}
