/**
 * Traces or spans, newest first: a filter, a histogram of the time range, and rows that load while one scrolls.
 * With a sort the list is a ranking: the first rows by a value, without further pages. Live adds new rows as they arrive.
 */
import { html } from 'htm/preact';
import { useCallback, useMemo } from 'preact/hooks';
import { href, navigate, param, setParams } from '../../app/address.js';
import { post } from '../../app/api.js';
import { allShown } from '../../app/format.js';
import { marksOf, usePages } from '../../app/loading.js';
import { DefaultRange, hasRange } from '../../components/default_range.js';
import { addConditions, currentFilter, FilterBar, wrongCondition } from '../../components/filter_bar/filter_bar.js';
import { ErrorNotice, IncompleteNotice, NothingFound, NothingYet } from '../../components/notices.js';
import { Table } from '../../components/table.js';
import { ALL_TIME, TimeRange, timeRange } from '../../components/time_range.js';
import { ColumnMenu, useColumns } from './column_menu.js';
import { SPAN_COLUMNS, TRACE_COLUMNS } from './columns.js';
import { useLive } from './live.js';
import { SavedQueryTitle, SaveQuery } from './save_query.js';
import { Overview } from './overview.js';

const PAGE = 100;
const RANKED_MAX = 100;
const SORTS = [['', 'Newest first'], ['duration', 'Longest'], ['cost', 'Most expensive'], ['tokens', 'Most tokens']];

/** @typedef {import('../../components/table.js').Column<any>} Column */

/** Quick filters for spans that are running: the latest start, and what a person reads. */
const RUNNING_FOR = [['', 'or ended'], ['now', 'now'], ['-1m', 'for more than 1 min'], ['-5m', 'for more than 5 min'], ['-1h', 'for more than 1 h'], ['-1d', 'for more than 1 day']];

/** What the two lists differ in. */
const TRACES = {
  name: 'traces', path: 'traces/summaries/query', member: 'summaries', columns: TRACE_COLUMNS,
  keyOf: (/** @type {any} */ row) => row.trace_id,
  hrefOf: (/** @type {any} */ row) => href(['traces', row.trace_id]),
  isFailed: (/** @type {any} */ row) => row.errors_count > 0,
};
const SPANS = {
  name: 'spans', path: 'spans/query', member: 'spans', columns: SPAN_COLUMNS,
  keyOf: (/** @type {any} */ row) => `${row.trace_id}/${row.span_id}`,
  hrefOf: (/** @type {any} */ row) => href(['traces', row.trace_id], { span: row.span_id }),
  isFailed: (/** @type {any} */ row) => row.status_code === 'STATUS_CODE_ERROR',
};

export function TracesView() {
  return html`<${ListInRange} kind=${TRACES} />`;
}

export function SpansView() {
  return html`<${ListInRange} kind=${SPANS} />`;
}

/** @param {{kind: typeof TRACES}} props */
function ListInRange({ kind }) {
  return hasRange() ? html`<${List} kind=${kind} />` : html`<${DefaultRange} filter=${currentFilter()} />`;
}

/** @param {{kind: typeof TRACES}} props */
function List({ kind }) {
  const filter = currentFilter();
  const { oldest, newest } = timeRange();
  const sort = param('sort') ?? '';
  const isLive = param('live') === '1' && !sort;
  const inputs = [kind.name, JSON.stringify(filter), oldest, newest, sort];

  const loadPage = useCallback(async (/** @type {string | null} */ next, /** @type {AbortSignal} */ abort) => {
    const windowing = sort
      ? { oldest, newest, limit: RANKED_MAX, sort: { by: sort } }
      : { oldest, newest, limit: PAGE, next: next ?? undefined };
    const answer = await post(kind.path, { filtering: filter, windowing }, abort);
    return { rows: answer[kind.member] ?? [], next: answer.windowing?.next ?? null, complete: answer.complete !== false };
  }, inputs);
  const pages = usePages(loadPage, inputs);
  const live = useLive({ kind, filter, isOn: isLive, keyOf: kind.keyOf, key: inputs.join() });
  const rows = useMemo(() => merged(live.rows, pages.rows, kind.keyOf), [live.rows, pages.rows]);
  const [shown, columnMenu] = useColumns(kind.name, kind.columns);
  const longest = useMemo(() => rows.reduce((most, row) => Math.max(most, kind.columns.durationOf(row)), 0), [rows]);
  const columns = useMemo(() => kind.columns.make(longest).filter(({ name, always }) => always || shown.has(name)), [longest, shown]);
  const isFiltered = filter.conditions.length > 0 || Boolean(oldest || newest);

  const windowingToSave = { oldest, newest, sort: sort ? { by: sort } : undefined };

  return html`<div class="list-view">
    <div class="bar">
      <${FilterBar} error=${pages.error} />
      <div class="controls">
        <${TimeRange} />
        <label class="select">Order <select value=${sort} onChange=${(/** @type {any} */ event) => setSort(event.target.value)}>
          ${SORTS.map(([value, title]) => html`<option value=${value}>${title}</option>`)}
        </select></label>
        <label class="select">Running <select value="" onChange=${(/** @type {any} */ event) => filterRunning(event.target)}>
          ${RUNNING_FOR.map(([before, title]) => html`<option value=${before}>${title}</option>`)}
        </select></label>
        <button class="live ${isLive ? 'on' : ''}" aria-pressed=${isLive} disabled=${Boolean(sort)}
          title="Show new ${kind.name} as they arrive" onClick=${() => setParams({ live: isLive ? null : '1' })}>● Live</button>
        <${ColumnMenu} ...${columnMenu} />
        <${SaveQuery} filter=${filter} windowing=${windowingToSave} focus=${kind === TRACES ? 'trace' : 'span'} />
      </div>
    </div>
    <${SavedQueryTitle} filter=${filter} windowing=${windowingToSave} />
    ${!sort && !pages.error && html`<${Overview} filter=${filter} oldest=${oldest} newest=${newest} />`}
    ${sort && html`<p class="ranking" role="status">A ranking: the first ${RANKED_MAX} ${kind.name} by ${sort}.${' '}
      ${kind.name === 'traces' ? 'Traces' : 'Spans'} without that value are left out.</p>`}
    ${pages.error && wrongCondition(pages.error) === null && html`<${ErrorNotice} error=${pages.error} retry=${pages.reload} />`}
    ${!pages.complete && html`<${IncompleteNotice} />`}
    ${live.paused > 0 && html`<button class="new-rows" onClick=${live.resume}>Show ${live.paused} new</button>`}
    ${rows.length === 0 && !pages.isLoading && !pages.error
      ? (isFiltered ? html`<${NothingFound} clear=${() => setParams({ filter: null, oldest: ALL_TIME, newest: null, query: null, version: null })} />` : html`<${NothingYet} />`)
      : html`<div ...${marksOf(pages, 'table-holder')} onPointerEnter=${live.pause} onPointerLeave=${live.resume}>
        <${Table} label=${kind.name} rows=${rows} columns=${columns} keyOf=${kind.keyOf} hrefOf=${kind.hrefOf} more=${pages.more}
          open=${(/** @type {any} */ row) => navigate(kind.hrefOf(row))} add=${addConditions} sort=${sort} setSort=${setSort}
          classOf=${(/** @type {any} */ row) => `${kind.isFailed(row) ? 'failed' : ''} ${live.isNew(kind.keyOf(row)) ? 'new' : ''}`}
          footer=${html`<${Footer} pages=${pages} count=${rows.length} isRanking=${Boolean(sort)} />`} />
      </div>`}
  </div>`;
}

/** Add the conditions of a quick filter, which then stand in the filter. @param {HTMLSelectElement} select */
function filterRunning(select) {
  const isRunning = { field: 'state', operator: 'is', value: 'running' };
  if (select.value) addConditions(select.value === 'now' ? [isRunning] : [isRunning, { field: 'start_time', operator: 'lt', value: select.value }]);
  select.value = '';
}

/** @param {string} sort  `''` is by time. */
function setSort(sort) {
  setParams({ sort, live: null });
}

/** @param {{pages: any, count: number, isRanking: boolean}} props */
function Footer({ pages, count, isRanking }) {
  if (pages.isLoading) return html`<p class="table-foot soft" role="status">Loading…</p>`;
  if (pages.error) return null;
  if (pages.next !== null) return html`<p class="table-foot"><button class="quiet" onClick=${pages.more}>Load more</button></p>`;
  return html`<p class="table-foot soft">${isRanking ? `The first ${count}.` : allShown(count)}</p>`;
}

/**
 * New rows first; a row that arrived live and is also on a page is shown once, in its live version.
 * @param {any[]} arrived
 * @param {any[]} rows
 * @param {(row: any) => string} keyOf
 */
function merged(arrived, rows, keyOf) {
  if (arrived.length === 0) return rows;
  const keys = new Set(arrived.map(keyOf));
  return [...arrived, ...rows.filter((row) => !keys.has(keyOf(row)))];
}
