/** The columns of the lists. A trace is a row of `/traces/summaries/query`, a span is the object that the API returns. */
import { html } from 'htm/preact';
import { cost, duration, localTime, short } from '../../app/format.js';
import { costOf, durationOf, isError, isRunning, modelOf, serviceOf, sessionOf, tokensOf, userOf } from '../../app/spans.js';
import { InShort } from '../../components/in_short.js';
import { SessionLink } from '../../components/session_link.js';
import { Time } from '../../components/time.js';
import { UserLink } from '../../components/user_link.js';

/** @typedef {import('../../components/table.js').Column<any>} Column */
/** @typedef {{durationOf: (row: any) => number, make: (longest: number) => Column[]}} Columns */

/** @typedef {import('../../components/value_menu.js').Quick} Quick */

/**
 * A quick filter by a field, where the row has a value of it.
 * @param {string} field
 * @param {unknown} value
 * @param {string} [text]
 * @returns {Quick | null}
 */
function by(field, value, text = String(value ?? '')) {
  if (value === undefined || value === null || value === '' || typeof value === 'object') return null;
  return { condition: { field, operator: 'is', value }, text };
}

/**
 * A quick filter by a value of the root. A trace matches if any of its spans does, so "not this" is about the root alone.
 * @param {Quick | null} quick
 * @returns {Quick | null}
 */
function ofRoot(quick) {
  if (!quick) return null;
  const others = [{ field: 'parent_id', operator: 'not_exists' }, { ...quick.condition, operator: 'is_not' }];
  return { ...quick, others };
}

/** @param {string[] | undefined} models  @returns {Quick | null} */
function byModels(models = []) {
  const value = models.length === 1 ? models[0] : models;
  return models.length ? { condition: { field: 'model', operator: models.length === 1 ? 'is' : 'in', value }, text: models.join(', '), others: [] } : null;
}

/** @param {any} row  @returns {Quick | null} */
function byState(row) {
  return isRunning(row) ? { condition: { field: 'state', operator: 'is', value: row.state }, text: 'running', others: [] } : null;
}

const FAILED = 'STATUS_CODE_ERROR';

/** @type {Columns} */
export const TRACE_COLUMNS = {
  durationOf: (trace) => trace.duration,
  make: (longest) => [
    { name: 'name', title: 'Trace', width: 'minmax(12.2rem, 2fr)', always: true, cell: (trace) => html`<${Name} name=${trace.span_name} type=${trace.span_type ?? trace.trace_type} mark=${markOf(trace)} />`, quick: (trace) => ofRoot(by('span_name', trace.span_name)) },
    { name: 'type', title: 'Type', width: '6rem', cell: (trace) => trace.span_type ?? '', quick: (trace) => ofRoot(by('span_type', trace.span_type)) },
    { name: 'time', title: 'Last activity', width: '7.6rem', sort: '', sortNote: 'The start of the latest span that matches', cell: (trace) => html`<${Time} value=${trace.latest_match} />` },
    { name: 'started', title: 'Started', width: '7.6rem', sortNote: 'The order is by the last activity', cell: (trace) => html`<${Time} value=${trace.start_time} />` },
    { name: 'question', title: 'Question', width: 'minmax(9.5rem, 4fr)', cell: (trace) => html`<${InShort} text=${trace.question} />` },
    { name: 'answer', title: 'Answer', width: 'minmax(7.4rem, 3fr)', cell: (trace) => html`<${InShort} text=${trace.answer} />` },
    { name: 'service', title: 'Service', width: 'minmax(6rem, 1fr)', cell: (trace) => trace.service, quick: (trace) => ofRoot(by('service', trace.service)) },
    { name: 'model', title: 'Models', width: 'minmax(4.5rem, 1fr)', cell: (trace) => html`<span title=${(trace.models ?? []).join(', ')}>${(trace.models ?? []).join(', ')}</span>`, quick: (trace) => byModels(trace.models) },
    { name: 'spans', title: 'Spans', width: '4.5rem', numeric: true, cell: (trace) => short(trace.spans_count) },
    { name: 'errors', title: 'Errors', width: '4.5rem', numeric: true, cell: (trace) => (trace.errors_count ? html`<span class="error-text">${short(trace.errors_count)}</span>` : ''), quick: (trace) => (trace.errors_count ? { condition: { field: 'status_code', operator: 'is', value: FAILED }, text: 'failed', others: [] } : null) },
    { name: 'tokens', title: 'Tokens', width: '4rem', numeric: true, sort: 'tokens', cell: (trace) => short(trace.tokens) },
    { name: 'cost', title: 'Cost', width: '6.2rem', numeric: true, sort: 'cost', cell: (trace) => cost(trace.cost) },
    { name: 'duration', title: 'Duration', width: '7rem', numeric: true, sort: 'duration', cell: (trace) => html`<${Took} row=${trace} value=${trace.duration} longest=${longest} />`, quick: (trace) => byState(trace) },
    { name: 'session', title: 'Session', width: 'minmax(5rem, 1fr)', cell: (trace) => html`<${SessionLink} id=${trace.session_id} />`, quick: (trace) => ofRoot(by('session', trace.session_id)) },
    { name: 'user', title: 'User', width: 'minmax(5rem, 1fr)', cell: (trace) => html`<${UserLink} id=${trace.user_id} />`, quick: (trace) => ofRoot(by('user', trace.user_id)) },
    { name: 'id', title: 'Trace id', width: '18rem', cell: (trace) => html`<code>${trace.trace_id}</code>` },
  ],
};

/** @type {Columns} */
export const SPAN_COLUMNS = {
  durationOf,
  make: (longest) => [
    { name: 'name', title: 'Span', width: 'minmax(12rem, 3fr)', always: true, cell: (span) => html`<${Name} name=${span.span_name} type=${span.span_type} mark=${isError(span) ? FAILED_MARK : null} />`, quick: (span) => by('span_name', span.span_name) },
    { name: 'type', title: 'Type', width: '6rem', cell: (span) => span.span_type ?? '', quick: (span) => by('span_type', span.span_type) },
    { name: 'time', title: 'Started', width: '8.5rem', sort: '', cell: (span) => html`<${Time} value=${span.start_time} />` },
    { name: 'service', title: 'Service', width: 'minmax(6rem, 1fr)', cell: serviceOf, quick: (span) => by('service', serviceOf(span)) },
    { name: 'model', title: 'Model', width: 'minmax(6rem, 1fr)', cell: modelOf, quick: (span) => by('model', modelOf(span)) },
    { name: 'tokens', title: 'Tokens', width: '5rem', numeric: true, sort: 'tokens', cell: (span) => short(tokensOf(span)) },
    { name: 'cost', title: 'Cost', width: '7rem', numeric: true, sort: 'cost', cell: (span) => cost(costOf(span)) },
    { name: 'duration', title: 'Duration', width: '10.5rem', numeric: true, sort: 'duration', cell: (span) => html`<${Took} row=${span} value=${durationOf(span)} longest=${longest} />`, quick: (span) => byState(span) },
    { name: 'status', title: 'Status', width: 'minmax(6rem, 1fr)', cell: (span) => (isError(span) ? html`<span class="error-text">${span.status_message || 'error'}</span>` : ''), quick: (span) => by('status_code', span.status_code, isError(span) ? 'failed' : 'this status') },
    { name: 'session', title: 'Session', width: 'minmax(6rem, 1fr)', cell: (span) => html`<${SessionLink} id=${sessionOf(span)} />`, quick: (span) => by('session', sessionOf(span)) },
    { name: 'user', title: 'User', width: 'minmax(6rem, 1fr)', cell: (span) => html`<${UserLink} id=${userOf(span)} />`, quick: (span) => by('user', userOf(span)) },
    { name: 'id', title: 'Span id', width: '11rem', cell: (span) => html`<code>${span.span_id}</code>` },
  ],
};

/** The columns that are shown until a person chooses. */
export const SHOWN_FIRST = /** @type {Record<string, string[]>} */ ({
  traces: ['time', 'question', 'answer', 'user', 'session', 'model', 'tokens', 'cost', 'duration'],
  spans: ['time', 'service', 'model', 'tokens', 'cost', 'duration', 'status'],
});

/** @typedef {{text: string, title: string, isInside?: boolean}} Mark */

const FAILED_MARK = { text: 'failed', title: 'failed' };

/** Whether a run failed; errors inside a run that went on do not make it one that failed. @param {any} trace  @returns {Mark | null} */
function markOf(trace) {
  if (isError(trace)) return FAILED_MARK;
  const count = trace.errors_count;
  return count ? { text: `${short(count)} ${count === 1 ? 'error' : 'errors'}`, title: 'Spans inside failed; the first span of the trace did not', isInside: true } : null;
}

/** @param {{name: string | undefined, type: string | undefined, mark: Mark | null}} props */
export function Name({ name, type, mark }) {
  return html`<span class="name-cell">
    <span class="type type-${type ?? 'undefined'}" title=${type ?? 'span'}>${(type ?? 'span').replace(/^(undefined|unknown)$/, 'span')}</span>
    <bdi class="name">${name || '(no name)'}</bdi>
    ${mark && html`<span class="error-mark ${mark.isInside ? 'inside' : ''}" title=${mark.title}>${mark.text}</span>`}
  </span>`;
}

/** @param {{row: any, value: number, longest: number}} props  Milliseconds. */
function Took({ row, value, longest }) {
  if (!isRunning(row)) return html`<${Bar} value=${value} longest=${longest} />`;
  return html`<span class="running-mark" title=${`Its end is not stored; it began at ${row.start_time}`}>running since ${localTime(row.start_time)}</span>`;
}

/** @param {{value: number, longest: number}} props  Milliseconds. */
function Bar({ value, longest }) {
  const share = longest > 0 ? Math.max(0.01, value / longest) : 0;
  return html`<span class="bar-cell"><span class="bar-track"><span class="bar-fill" style=${{ width: `${share * 100}%` }}></span></span><span class="bar-text">${duration(value)}</span></span>`;
}
