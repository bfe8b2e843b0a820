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
import { rankedBy, scoreOfSort } from '../../app/scores.js';
import { DefaultRange, hasRange } from '../../components/default_range.js';
import { addConditions, currentFilter, FilterBar, wrongCondition } from '../../components/filter_bar/filter_bar.js';
import { ErrorNotice, IncompleteNotice, NothingFound, NothingYet } from '../../components/notices.js';
import { Table } from '../../components/table.js';
import { ALL_TIME, TimeRange, timeRange } from '../../components/time_range.js';
import { ColumnMenu, useColumns } from './column_menu.js';
import { SPAN_COLUMNS, TRACE_COLUMNS } from './columns.js';
import { useLive } from './live.js';
import { SavedQueryTitle, SaveQuery } from './save_query.js';
import { scoreColumns } from './score_columns.js';
import { ScoreOverview } from './score_overview.js';
import { ShareList } from './share_list.js';
import { Overview } from './overview.js';

const PAGE = 100;
const RANKED_MAX = 100;
const SCORES_MAX = 3;
const SORTS = [['', 'Newest first'], ['duration', 'Longest'], ['cost', 'Most expensive'], ['tokens', 'Most tokens']];

/** @typedef {import('../../components/table.js').Column<any>} Column */

/** Quick filters for spans that are running: the latest start, and what a person reads. */
const RUNNING_FOR = [['', 'or ended'], ['now', 'now'], ['-1m', 'for more than 1 min'], ['-5m', 'for more than 5 min'], ['-1h', 'for more than 1 h'], ['-1d', 'for more than 1 day']];

/** What the two lists differ in. */
const TRACES = {
  name: 'traces', path: 'traces/summaries/query', member: 'summaries', columns: TRACE_COLUMNS,
  keyOf: (/** @type {any} */ row) => row.trace_id,
  hrefOf: (/** @type {any} */ row) => href(['traces', row.trace_id]),
  isFailed: (/** @type {any} */ row) => row.errors_count > 0, hasScores: false,
};
const SPANS = {
  name: 'spans', path: 'spans/query', member: 'spans', columns: SPAN_COLUMNS,
  keyOf: (/** @type {any} */ row) => `${row.trace_id}/${row.span_id}`,
  hrefOf: (/** @type {any} */ row) => href(['traces', row.trace_id], { span: row.span_id }),
  isFailed: (/** @type {any} */ row) => row.status_code === 'STATUS_CODE_ERROR', hasScores: true,
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
  const isAscending = sort !== '' && param('order') === 'ascending';
  const isLive = param('live') === '1' && !sort;
  const inputs = [kind.name, JSON.stringify(filter), oldest, newest, sort, isAscending];
  const ranking = sort ? { by: rankedBy(sort), order: isAscending ? 'ascending' : undefined } : undefined;

  const loadPage = useCallback(async (/** @type {string | null} */ next, /** @type {AbortSignal} */ abort) => {
    const windowing = sort
      ? { oldest, newest, limit: RANKED_MAX, sort: ranking }
      : { oldest, newest, limit: PAGE, next: next ?? undefined };
    const answer = await post(kind.path, { filtering: filter, windowing }, abort);
    return { rows: answer[kind.member] ?? [], next: answer.windowing?.next ?? null, complete: answer.complete !== false };
  }, inputs);
  const pages = usePages(loadPage, inputs);
  const live = useLive({ kind, filter, isOn: isLive, keyOf: kind.keyOf, key: inputs.join() });
  const rows = useMemo(() => merged(live.rows, pages.rows, kind.keyOf), [live.rows, pages.rows]);
  const [shown, toggle] = useColumns(kind.name);
  const longest = useMemo(() => rows.reduce((most, row) => Math.max(most, kind.columns.durationOf(row)), 0), [rows]);
  const allColumns = useMemo(() => [...kind.columns.make(longest), ...(kind.hasScores ? scoreColumns(rows, [...shown, sort]) : [])], [longest, rows, shown, sort]);
  const columns = allColumns.filter(({ name, always }) => always || shown.has(name) || (name === sort && scoreOfSort(name) !== undefined));
  const shownScores = columns.map(({ name }) => scoreOfSort(name)).filter((name) => name !== undefined).slice(0, SCORES_MAX);
  const isFiltered = filter.conditions.length > 0 || Boolean(oldest || newest);

  const windowingToSave = { oldest, newest, sort: ranking };
  const sorts = [...SORTS, ...allColumns.filter(({ name }) => scoreOfSort(name) !== undefined).map(({ name, title }) => [name, `By ${title}`])];

  return html`<div class="list-view">
    <div class="bar">
      <${FilterBar} error=${pages.error} />
      <div class="controls">
        <${TimeRange} />
        <label class="select">Order <select value=${sort} onChange=${(/** @type {any} */ event) => setSort(event.target.value, sort, isAscending)}>
          ${sorts.map(([value, title]) => html`<option value=${value}>${title}</option>`)}
        </select></label>
        <label class="select">Running <select value="" onChange=${(/** @type {any} */ event) => filterRunning(event.target)}>
          ${RUNNING_FOR.map(([before, title]) => html`<option value=${before}>${title}</option>`)}
        </select></label>
        <button class="live ${isLive ? 'on' : ''}" aria-pressed=${isLive} disabled=${Boolean(sort)}
          title="Show new ${kind.name} as they arrive" onClick=${() => setParams({ live: isLive ? null : '1' })}>● Live</button>
        <${ColumnMenu} columns=${allColumns} shown=${shown} toggle=${toggle} />
        <${SaveQuery} filter=${filter} windowing=${windowingToSave} focus=${kind === TRACES ? 'trace' : 'span'} />
        <${ShareList} path=${kind.path} filter=${filter} windowing=${sort ? { ...windowingToSave, limit: RANKED_MAX } : { ...windowingToSave, limit: PAGE }} />
      </div>
    </div>
    <${SavedQueryTitle} filter=${filter} windowing=${windowingToSave} />
    ${!sort && !pages.error && html`<${Overview} filter=${filter} oldest=${oldest} newest=${newest} />`}
    ${!pages.error && shownScores.length > 0 && html`<div class="score-overviews">
      ${shownScores.map((name) => html`<${ScoreOverview} key=${name} name=${name} filter=${filter} oldest=${oldest} newest=${newest} add=${addConditions} />`)}
    </div>`}
    ${sort && html`<p class="ranking" role="status">A ranking: the ${isAscending ? 'last' : 'first'} ${RANKED_MAX} ${kind.name} by ${sort}.${' '}
      ${kind.name === 'traces' ? 'Traces' : 'Spans'} without that value are left out.</p>`}
    ${pages.error && wrongCondition(pages.error) === null && html`<${ErrorNotice} error=${pages.error} retry=${pages.reload} />`}
    ${!pages.complete && html`<${IncompleteNotice} />`}
    ${live.paused > 0 && html`<button class="new-rows" onClick=${live.resume}>Show ${live.paused} new</button>`}
    ${rows.length === 0 && !pages.isLoading && !pages.error
      ? (isFiltered ? html`<${NothingFound} clear=${() => setParams({ filter: null, oldest: ALL_TIME, newest: null, query: null, version: null })} />` : html`<${NothingYet} />`)
      : html`<div ...${marksOf(pages, 'table-holder')} onPointerEnter=${live.pause} onPointerLeave=${live.resume}>
        <${Table} label=${kind.name} rows=${rows} columns=${columns} keyOf=${kind.keyOf} hrefOf=${kind.hrefOf} more=${pages.more}
          open=${(/** @type {any} */ row) => navigate(kind.hrefOf(row))} add=${addConditions} sort=${sort} isAscending=${isAscending}
          setSort=${(/** @type {string} */ by) => setSort(by, sort, isAscending)}
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

/**
 * Order by a value, the highest first; by the score that orders the list already, the lowest first.
 * @param {string} sort  `''` is by time.
 * @param {string} current
 * @param {boolean} isAscending
 */
function setSort(sort, current, isAscending) {
  const turns = sort === current && scoreOfSort(sort) !== undefined && !isAscending;
  setParams({ sort, order: turns ? 'ascending' : null, live: null });
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
