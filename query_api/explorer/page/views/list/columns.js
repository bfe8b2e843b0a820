/** The columns of the lists. A trace is a row of `/traces/summaries/query`, a span is the object that the API returns. */
import { html } from 'htm/preact';
import { cost, duration, short } from '../../app/format.js';
import { attribute, costOf, durationOf, isError, modelOf, serviceOf, tokensOf } from '../../app/spans.js';
import { Time } from '../../components/time.js';

/** @typedef {import('../../components/table.js').Column<any>} Column */
/** @typedef {{durationOf: (row: any) => number, make: (longest: number) => Column[]}} Columns */

/** @type {Columns} */
export const TRACE_COLUMNS = {
  durationOf: (trace) => trace.duration,
  make: (longest) => [
    { name: 'name', title: 'Trace', width: 'minmax(12rem, 3fr)', always: true, cell: (trace) => html`<${Name} name=${trace.span_name} type=${trace.span_type ?? trace.trace_type} failed=${trace.errors_count > 0} />` },
    { name: 'time', title: 'Started', width: '8.5rem', cell: (trace) => html`<${Time} value=${trace.start_time} />` },
    { name: 'service', title: 'Service', width: 'minmax(6rem, 1fr)', cell: (trace) => trace.service },
    { name: 'model', title: 'Models', width: 'minmax(6rem, 1fr)', cell: (trace) => html`<span title=${(trace.models ?? []).join(', ')}>${(trace.models ?? []).join(', ')}</span>` },
    { name: 'spans', title: 'Spans', width: '4.5rem', numeric: true, cell: (trace) => short(trace.spans_count) },
    { name: 'errors', title: 'Errors', width: '4.5rem', numeric: true, cell: (trace) => (trace.errors_count ? html`<span class="error-text">${short(trace.errors_count)}</span>` : '') },
    { name: 'tokens', title: 'Tokens', width: '5rem', numeric: true, cell: (trace) => short(trace.tokens) },
    { name: 'cost', title: 'Cost', width: '7rem', numeric: true, cell: (trace) => cost(trace.cost) },
    { name: 'duration', title: 'Duration', width: '9rem', numeric: true, cell: (trace) => html`<${Bar} value=${trace.duration} longest=${longest} />` },
    { name: 'session', title: 'Session', width: 'minmax(6rem, 1fr)', cell: (trace) => trace.session_id ?? '' },
    { name: 'id', title: 'Trace id', width: '18rem', cell: (trace) => html`<code>${trace.trace_id}</code>` },
  ],
};

/** @type {Columns} */
export const SPAN_COLUMNS = {
  durationOf,
  make: (longest) => [
    { name: 'name', title: 'Span', width: 'minmax(12rem, 3fr)', always: true, cell: (span) => html`<${Name} name=${span.span_name} type=${span.span_type} failed=${isError(span)} />` },
    { name: 'time', title: 'Started', width: '8.5rem', cell: (span) => html`<${Time} value=${span.start_time} />` },
    { name: 'service', title: 'Service', width: 'minmax(6rem, 1fr)', cell: serviceOf },
    { name: 'model', title: 'Model', width: 'minmax(6rem, 1fr)', cell: modelOf },
    { name: 'tokens', title: 'Tokens', width: '5rem', numeric: true, cell: (span) => short(tokensOf(span)) },
    { name: 'cost', title: 'Cost', width: '7rem', numeric: true, cell: (span) => cost(costOf(span)) },
    { name: 'duration', title: 'Duration', width: '9rem', numeric: true, cell: (span) => html`<${Bar} value=${durationOf(span)} longest=${longest} />` },
    { name: 'status', title: 'Status', width: 'minmax(6rem, 1fr)', cell: (span) => (isError(span) ? html`<span class="error-text">${span.status_message || 'error'}</span>` : '') },
    { name: 'session', title: 'Session', width: 'minmax(6rem, 1fr)', cell: (span) => attribute(span, 'ag.session.id') ?? '' },
    { name: 'id', title: 'Span id', width: '11rem', cell: (span) => html`<code>${span.span_id}</code>` },
  ],
};

/** The columns that are shown until a person chooses. */
export const SHOWN_FIRST = /** @type {Record<string, string[]>} */ ({
  traces: ['time', 'service', 'model', 'spans', 'errors', 'tokens', 'cost', 'duration'],
  spans: ['time', 'service', 'model', 'tokens', 'cost', 'duration', 'status'],
});

/** @param {{name: string | undefined, type: string | undefined, failed: boolean}} props */
export function Name({ name, type, failed }) {
  return html`<span class="name-cell">
    <span class="type type-${type ?? 'undefined'}" title=${type ?? 'span'}>${(type ?? 'span').replace(/^(undefined|unknown)$/, 'span')}</span>
    <bdi class="name">${name || '(no name)'}</bdi>
    ${failed && html`<span class="error-mark" title="failed">failed</span>`}
  </span>`;
}

/** @param {{value: number, longest: number}} props  Milliseconds. */
function Bar({ value, longest }) {
  const share = longest > 0 ? Math.max(0.01, value / longest) : 0;
  return html`<span class="bar-cell"><span class="bar-track"><span class="bar-fill" style=${{ width: `${share * 100}%` }}></span></span>${duration(value)}</span>`;
}
