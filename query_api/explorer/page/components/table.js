/**
 * A long list with columns. Only the visible rows are in the document, so that a hundred thousand scroll smoothly.
 * Arrow keys, `j` and `k` select a row, Enter opens it, Tab goes to the quick filters of its values.
 */
import { html } from 'htm/preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { useKeptPlace } from './kept_place.js';
import { Resizer, useWidths } from './name_width.js';
import { FilterButton } from './value_menu.js';
import { useVisibleRows } from './visible_rows.js';

const ROW_HEIGHT = 34;

/** Of rows in two lines, where the page is narrow: the width at which `list.css` changes. */
const NARROW_ROW_HEIGHT = 52;

/** Of rows in three lines: where a row has a question, it stands in a line of its own. */
const NARROW_QUESTION_HEIGHT = 72;
const QUESTION = 'question';
const NARROW = matchMedia('(max-width: 720px)');

/**
 * @template T
 * @typedef {{name: string, title: string, width: string, cell: (row: T) => any, numeric?: boolean, always?: boolean,
 *   sort?: string, sortNote?: string, quick?: (row: T) => import('./value_menu.js').Quick | null}} Column
 */

/**
 * @template T
 * @param {{rows: readonly T[], columns: Column<T>[], keyOf: (row: T) => string, hrefOf?: (row: T) => string,
 *   open?: (row: T) => void, isSelected?: (row: T) => boolean, classOf?: (row: T) => string, more?: () => void,
 *   isOld: boolean, footer?: any, label: string, name?: string, sort?: string, isAscending?: boolean,
 *   add?: (conditions: import('../app/filter.js').Condition[]) => void, setSort?: (sort: string) => void}} props
 *   `more` loads further rows, if there are any. `isOld` while the rows are those of another address. `add` adds the
 *   conditions of a quick filter. `sort` is the `sort` of the column that orders the rows now. Under `name` the widths of
 *   the columns are kept.
 */
export function Table({ rows, columns, keyOf, hrefOf, open, isSelected, classOf, more, isOld, footer, label, name = label, sort, isAscending = false, add, setSort }) {
  const isNarrow = useNarrow();
  const hasQuestion = columns.some((column) => column.name === QUESTION);
  const rowHeight = isNarrow ? (hasQuestion ? NARROW_QUESTION_HEIGHT : NARROW_ROW_HEIGHT) : ROW_HEIGHT;
  const [widths, setWidth] = useWidths(name);
  const { scroller, first, last, onScroll, scrollTo, scrollToRow } = useVisibleRows(rows.length, rowHeight, '.row.head');
  const [cursor, setCursor] = useKeptPlace({ rows, keyOf, rowHeight, isOld, more, scroller, scrollTo });
  const [hovered, setHovered] = useState(/** @type {string | null} */ (null));
  useEffect(() => { if (last >= rows.length) more?.(); }, [last, rows.length, more]);

  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 15, PageUp: -15 }[event.key];
    if (step !== undefined && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      move(Math.min(rows.length - 1, Math.max(0, cursor + step)));
    }
    const row = rows[cursor];
    const filter = scroller.current?.querySelector('.rows .selected .filter-value');
    if (event.key === 'Tab' && !event.shiftKey && event.target === scroller.current && filter instanceof HTMLElement) {
      event.preventDefault();
      filter.focus();
    }
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
    if (document.activeElement === document.body) scroller.current?.focus({ preventScroll: true });
  };
  const template = columns.map((column) => (widths[column.name] ? `${widths[column.name]}px` : column.width)).join(' ');
  return html`<div class="scroller" ref=${scroller} tabindex="0" role="region" aria-label=${label}
      onScroll=${onScroll} onKeyDown=${onKeyDown}>
    <div class="table ${hasQuestion ? 'with-question' : ''}" role="table" aria-label=${label} aria-rowcount=${rows.length}>
    <div class="row head" role="row" style=${{ gridTemplateColumns: template }}>
      ${columns.map((column, place) => html`<span role="columnheader" class=${cellClass(column)}
        aria-sort=${column.sort !== undefined && column.sort === sort ? (isAscending ? 'ascending' : 'descending') : null}><${Title} column=${column} sort=${sort} isAscending=${isAscending} setSort=${setSort} />${!isNarrow && html`<${Resizer} of=${place === 0 ? 'the names' : column.title} width=${widths[column.name] ?? null}
          change=${(/** @type {number | null} */ width) => setWidth(column.name, width)} />`}</span>`)}
    </div>
    <div class="rows" role="rowgroup" style=${{ height: `${rows.length * rowHeight}px` }}>
      ${rows.slice(first, last).map((row, index) => {
        const number = first + index;
        const selected = Boolean(isSelected?.(row)) || number === cursor;
        return html`<div key=${keyOf(row)} role="row" aria-rowindex=${number + 1} aria-selected=${selected}
            class="row ${selected ? 'selected' : ''} ${classOf?.(row) ?? ''}"
            style=${{ transform: `translateY(${number * rowHeight}px)`, gridTemplateColumns: template }}
            onPointerEnter=${() => { if (add) setHovered(keyOf(row)); }}
            onClick=${(/** @type {MouseEvent} */ event) => { if (event.defaultPrevented) return; setCursor(number); if (!isLink(event)) open?.(row); }}>
          ${columns.map((column, place) => html`<span role="cell" class=${cellClass(column)}>
            ${place === 0 && hrefOf ? html`<a href=${hrefOf(row)} tabindex="-1">${column.cell(row)}</a>` : column.cell(row)}
            ${add && (selected || hovered === keyOf(row)) && quickOf(column, row, add)}
          </span>`)}
        </div>`;
      })}
    </div></div>
    ${footer}
  </div>`;
}

/**
 * A title that orders the rows where the column can.
 * @param {{column: Column<any>, sort?: string, isAscending: boolean, setSort?: (sort: string) => void}} props
 */
function Title({ column, sort, isAscending, setSort }) {
  if (column.sort === undefined || !setSort) return html`<bdi title=${setSort && (column.sortNote ?? 'The API has no order by this column')}>${column.title}</bdi>`;
  const isCurrent = column.sort === sort;
  const next = isCurrent && !isAscending ? 'The lowest first' : 'The highest first';
  const nextTime = isCurrent && !isAscending ? 'The oldest first' : 'The newest first';
  return html`<button class="quiet sort" title=${column.sortNote ?? (column.sort === '' ? nextTime : next)} onClick=${() => setSort(column.sort ?? '')}>${column.title}${isCurrent ? (isAscending ? ' ↑' : ' ↓') : ''}</button>`;
}

/**
 * @param {Column<any>} column
 * @param {any} row
 * @param {(conditions: import('../app/filter.js').Condition[]) => void} add
 */
function quickOf(column, row, add) {
  const quick = column.quick?.(row);
  return quick ? html`<${FilterButton} quick=${quick} add=${add} />` : null;
}

/** Whether the page is so narrow that a row has two lines. */
function useNarrow() {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const onChange = () => setNarrow(NARROW.matches);
    NARROW.addEventListener('change', onChange);
    return () => NARROW.removeEventListener('change', onChange);
  }, []);
  return isNarrow;
}

/** @param {Column<any>} column */
function cellClass(column) {
  return `c-${column.name.replace(/[^\w-]/g, '_')}${column.numeric ? ' numeric' : ''}${column.always ? ' always' : ''}`;
}

/** @param {MouseEvent} event */
function isLink(event) {
  return event.target instanceof Element && event.target.closest('a, button') !== null;
}
