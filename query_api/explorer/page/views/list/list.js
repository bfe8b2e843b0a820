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
import { conditionText, filterTitle } from '../../app/filter.js';
import { rankedBy, scoreOfSort } from '../../app/scores.js';
import { isError } from '../../app/spans.js';
import { useTitle } from '../../app/title.js';
import { AsideSwitch, showsAside, withoutAside } from '../../components/aside.js';
import { DefaultRange, hasRange } from '../../components/default_range.js';
import { addConditions, currentFilter, FilterBar, setFilter, wrongCondition } from '../../components/filter_bar/filter_bar.js';
import { placeToReturnTo } from '../../components/kept_place.js';
import { ErrorNotice, IncompleteNotice, NothingFound, NothingYet } from '../../components/notices.js';
import { Table } from '../../components/table.js';
import { ALL_TIME, TimeRange, timeRange } from '../../components/time_range.js';
import { attributeColumns, attributePaths } from './attribute_columns.js';
import { ColumnMenu } from './column_menu.js';
import { SPAN_COLUMNS, TRACE_COLUMNS } from './columns.js';
import { useLayout } from './layout.js';
import { useLive } from './live.js';
import { SavedQueryTitle, SaveQuery } from './save_query.js';
import { scoreColumns } from './score_columns.js';
import { ScoreOverview } from './score_overview.js';
import { ShareList } from './share_list.js';
import { Overview } from './overview.js';

const PAGE = 100;

/** Rows of the first page at most, where a person comes back to a place further down. */
const FIRST_PAGE_MAX = 1_000;

/** Conditions that are offered to be left out where nothing matches. */
const LEFT_OUT_MAX = 6;

const RANKED_MAX = 100;
const SCORES_MAX = 3;

/** In the choice of the order: by time, the earliest first. */
const OLDEST = 'oldest';
const SORTS = [['', 'Newest first'], [OLDEST, 'Oldest first'], ['duration', 'Longest'], ['cost', 'Most expensive'], ['tokens', 'Most tokens']];

/** @typedef {import('../../components/table.js').Column<any>} Column */

/** Quick filters for spans that are running: the latest start, and what a person reads. */
const RUNNING_FOR = [['', 'Running or ended'], ['now', 'Running now'], ['-1m', 'Running for more than 1 min'], ['-5m', 'Running for more than 5 min'], ['-1h', 'Running for more than 1 h'], ['-1d', 'Running for more than 1 day']];

/** Columns of texts, which the API reads from payloads: a list asks for them only to show them. */
const TEXTS = ['question', 'answer'];

/** What the two lists differ in. `more` are members of a request beside its filter and window, by the names of columns. */
const TRACES = {
  name: 'traces', path: 'traces/summaries/query', member: 'summaries', columns: TRACE_COLUMNS,
  keyOf: (/** @type {any} */ row) => row.trace_id,
  hrefOf: (/** @type {any} */ row) => href(['traces', row.trace_id]),
  isFailed: isError,
  more: (/** @type {string[]} */ names) => ({ include_texts: TEXTS.some((name) => names.includes(name)), include_attributes: attributePaths(names) }),
};
const SPANS = {
  name: 'spans', path: 'spans/query', member: 'spans', columns: SPAN_COLUMNS,
  keyOf: (/** @type {any} */ row) => `${row.trace_id}/${row.span_id}`,
  hrefOf: (/** @type {any} */ row) => href(['traces', row.trace_id], { span: row.span_id }),
  isFailed: isError,
  more: () => ({}),
};

export function TracesView() {
  return html`<${ListInRange} kind=${TRACES} />`;
}

export function SpansView() {
  return html`<${ListInRange} kind=${SPANS} />`;
}

/** @param {{kind: typeof TRACES}} props */
function ListInRange({ kind }) {
  return hasRange() ? html`<${List} kind=${kind} />` : html`<${DefaultRange} filter=${withoutAside(currentFilter())} />`;
}

/** @param {{kind: typeof TRACES}} props */
function List({ kind }) {
  const written = currentFilter();
  const filter = withoutAside(written);
  useTitle(filterTitle(written));
  const { oldest, newest } = timeRange();
  const sort = param('sort') ?? '';
  const isAscending = param('order') === 'ascending';
  const isLive = param('live') === '1' && !sort && !isAscending;
  const [names, changeNames] = useLayout(kind.name);
  const more = kind.more(names);
  const inputs = [kind.name, JSON.stringify(filter), oldest, newest, sort, isAscending, JSON.stringify(more)];
  const order = isAscending ? 'ascending' : undefined;
  const windowingToSave = sort ? { oldest, newest, sort: { by: rankedBy(sort), order } } : { oldest, newest, order };
  const body = { filtering: filter, windowing: { ...windowingToSave, limit: sort ? RANKED_MAX : PAGE }, ...more };

  const loadPage = useCallback(async (/** @type {string | null} */ next, /** @type {AbortSignal} */ abort) => {
    const limit = next === null && !sort ? firstPage() : body.windowing.limit;
    const answer = await post(kind.path, { ...body, windowing: { ...body.windowing, limit, next: next ?? undefined } }, abort);
    return { rows: answer[kind.member] ?? [], next: answer.windowing?.next ?? null, complete: answer.complete !== false };
  }, inputs);
  const pages = usePages(loadPage, inputs);
  const live = useLive({ kind, filter, more, isOn: isLive, keyOf: kind.keyOf, key: inputs.join() });
  const rows = useMemo(() => merged(live.rows, pages.rows, kind.keyOf), [live.rows, pages.rows]);
  const longest = useMemo(() => rows.reduce((most, row) => Math.max(most, kind.columns.durationOf(row)), 0), [rows]);
  const allColumns = useMemo(() => columnsOf(kind, rows, longest, [...names, sort]), [longest, rows, names.join(), sort]);
  const columns = chosenColumns(allColumns, names, sort);
  const shownScores = columns.map(({ name }) => scoreOfSort(name)).filter((name) => name !== undefined).slice(0, SCORES_MAX);
  const isFiltered = written.conditions.length > 0 || Boolean(oldest || newest);

  const lookAside = showsAside() ? undefined : () => setParams({ aside: '1' });
  const sorts = [...SORTS, ...allColumns.filter(({ sort: by }) => by?.includes('.')).map(({ sort: by, title }) => [by, `By ${title}`])];

  return html`<div class="list-view">
    <div class="bar">
      <${FilterBar} error=${pages.error} />
      <div class="controls">
        <${TimeRange} />
        <label class="select">Order <select value=${!sort && isAscending ? OLDEST : sort} onChange=${(/** @type {any} */ event) => chooseOrder(event.target.value)}>
          ${sorts.map(([value, title]) => html`<option value=${value}>${title}</option>`)}
        </select></label>
        <label class="select"><select aria-label="Running" value="" onChange=${(/** @type {any} */ event) => filterRunning(event.target)}>
          ${RUNNING_FOR.map(([before, title]) => html`<option value=${before}>${title}</option>`)}
        </select></label>
        <button class="live ${isLive ? 'on' : ''}" aria-pressed=${isLive} disabled=${Boolean(sort) || isAscending}
          title="Show new ${kind.name} as they arrive" onClick=${() => setParams({ live: isLive ? null : '1' })}>● Live</button>
        <${AsideSwitch} />
        <${ColumnMenu} columns=${allColumns} names=${columns.slice(1).map(({ name }) => name)} change=${changeNames} filter=${filter} />
        <${SaveQuery} filter=${written} windowing=${windowingToSave} focus=${kind === TRACES ? 'trace' : 'span'} />
        <${ShareList} path=${kind.path} body=${body} of=${kind.name} />
      </div>
    </div>
    <${SavedQueryTitle} filter=${written} windowing=${windowingToSave} />
    ${!sort && !pages.error && html`<${Overview} filter=${filter} oldest=${oldest} newest=${newest} />`}
    ${!pages.error && shownScores.length > 0 && html`<div class="score-overviews">
      ${shownScores.map((name) => html`<${ScoreOverview} key=${name} name=${name} filter=${filter} oldest=${oldest} newest=${newest} add=${addConditions} />`)}
    </div>`}
    ${sort && html`<p class="ranking" role="status">A ranking: the ${isAscending ? 'last' : 'first'} ${RANKED_MAX} ${kind.name} by ${sort}.${' '}
      ${kind.name === 'traces' ? 'Traces' : 'Spans'} without that value are left out.</p>`}
    ${pages.error && wrongCondition(pages.error) === null && html`<${ErrorNotice} error=${pages.error} retry=${pages.reload} />`}
    ${live.error && !pages.error && html`<${ErrorNotice} error=${live.error} retry=${live.retry} before="Live has stopped. " />`}
    ${!pages.complete && html`<${IncompleteNotice} />`}
    ${live.paused > 0 && html`<button class="new-rows" onClick=${live.resume}>Show ${live.paused} new</button>`}
    ${rows.length === 0 && !pages.isLoading && !pages.error
      ? (isFiltered ? html`<${NothingFound} clear=${() => setParams({ filter: null, oldest: ALL_TIME, newest: null, query: null, version: null })}
        showAside=${lookAside}><${LeaveOneOut} filter=${currentFilter()} /></${NothingFound}>` : html`<${NothingYet} showAside=${lookAside} />`)
      : html`<div ...${marksOf(pages, 'table-holder')} onPointerEnter=${live.pause} onPointerLeave=${live.resume}>
        <${Table} label=${kind.name} rows=${rows} columns=${columns} keyOf=${kind.keyOf} hrefOf=${kind.hrefOf} isOld=${pages.isOld} more=${pages.next === null ? undefined : pages.more}
          open=${(/** @type {any} */ row) => navigate(kind.hrefOf(row))} add=${addConditions} sort=${sort} isAscending=${isAscending}
          setSort=${(/** @type {string} */ by) => setSort(by, sort, isAscending)}
          classOf=${(/** @type {any} */ row) => `${kind.isFailed(row) ? 'failed' : ''} ${live.isNew(kind.keyOf(row)) ? 'new' : ''}`}
          footer=${html`<${Footer} pages=${pages} count=${rows.length} isRanking=${Boolean(sort)} />`} />
      </div>`}
  </div>`;
}

/** @param {{filter: import('../../app/filter.js').Filter}} props */
function LeaveOneOut({ filter: { operator = 'and', conditions } }) {
  if (operator !== 'and' || conditions.length < 2) return null;
  return html`<p>One span must fulfil all conditions. A session or a user is often on the first span of a trace only, and the cost on its model calls.</p>
    <p class="actions">${conditions.slice(0, LEFT_OUT_MAX).map((left) => html`<button onClick=${() => setFilter({ conditions: conditions.filter((each) => each !== left) })}>Without <bdi>${conditionText(left)}</bdi></button>`)}</p>`;
}

/** How many rows to load first: down to the place to which a person comes back. */
function firstPage() {
  return Math.min(FIRST_PAGE_MAX, Math.max(PAGE, placeToReturnTo()?.count ?? 0));
}

/** Add the conditions of a quick filter, which then stand in the filter. @param {HTMLSelectElement} select */
function filterRunning(select) {
  const isRunning = { field: 'state', operator: 'is', value: 'running' };
  if (select.value) addConditions(select.value === 'now' ? [isRunning] : [isRunning, { field: 'start_time', operator: 'lt', value: select.value }]);
  select.value = '';
}

/**
 * All columns that a list can show.
 * @param {typeof TRACES} kind
 * @param {any[]} rows
 * @param {number} longest
 * @param {string[]} names  Of columns that are shown, also of scores and attributes.
 * @returns {Column[]}
 */
function columnsOf(kind, rows, longest, names) {
  const isOfTraces = kind === TRACES;
  return [...kind.columns.make(longest), ...scoreColumns(rows, names, isOfTraces), ...attributeColumns([...new Set(names)], isOfTraces)];
}

/**
 * The first column, then those that are shown in their order, and the value that orders the list.
 * @param {Column[]} columns
 * @param {string[]} names
 * @param {string} sort
 */
function chosenColumns(columns, names, sort) {
  const isExtra = sort.includes('.') && !names.includes(sort);
  const shown = [...names, ...(isExtra ? [sort] : [])].flatMap((name) => columns.filter((column) => column.name === name && !column.always));
  return [...columns.filter(({ always }) => always), ...shown];
}

/**
 * Order by a value, the highest first; by what orders the list already, the other way.
 * @param {string} sort  `''` is by time.
 * @param {string} current
 * @param {boolean} isAscending
 */
function setSort(sort, current, isAscending) {
  setParams({ sort, order: sort === current && !isAscending ? 'ascending' : null, live: null });
}

/** @param {string} choice  A sort, or `OLDEST`. */
function chooseOrder(choice) {
  setParams(choice === OLDEST ? { sort: null, order: 'ascending', live: null } : { sort: choice, order: null, live: null });
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
