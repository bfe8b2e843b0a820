/** Sessions by their last activity, and one session as a conversation over its traces. */
import { html } from 'htm/preact';
import { useCallback } from 'preact/hooks';
import { href, navigate } from '../../app/address.js';
import { post } from '../../app/api.js';
import { ago, cost, short } from '../../app/format.js';
import { usePages } from '../../app/loading.js';
import { ErrorNotice, IncompleteNotice } from '../../components/notices.js';
import { Table } from '../../components/table.js';
import { TimeRange, timeRange } from '../../components/time_range.js';
import { SessionView } from './session.js';

const PAGE = 50;
const SESSION = { field: 'attributes', key: 'ag.session.id' };

/** @typedef {{id: string, turns: number, spans: number, errors: number, tokens: number | null, cost: number | null, last: string}} Session */

/** @param {{sessionId?: string}} props */
export function SessionsView({ sessionId }) {
  return sessionId ? html`<${SessionView} sessionId=${sessionId} />` : html`<${SessionList} />`;
}

function SessionList() {
  const { oldest, newest } = timeRange();
  const inputs = [oldest, newest];
  const loadPage = useCallback(async (/** @type {string | null} */ next, /** @type {AbortSignal} */ abort) => {
    const windowing = { oldest, newest, limit: PAGE, next: next ?? undefined };
    const page = await post('spans/sessions/query', { windowing }, abort);
    const rows = page.session_ids.length ? await figures(page.session_ids, { oldest, newest }, abort) : [];
    return { rows, next: page.windowing?.next ?? null, complete: page.complete !== false };
  }, inputs);
  const pages = usePages(loadPage, inputs);
  return html`<div class="list-view">
    <div class="bar"><h1 class="bar-title">Sessions</h1><div class="controls"><${TimeRange} /></div></div>
    ${pages.error && html`<${ErrorNotice} error=${pages.error} retry=${pages.reload} />`}
    ${!pages.complete && html`<${IncompleteNotice} />`}
    ${pages.rows.length === 0 && !pages.isLoading && !pages.error ? html`<${NoSessions} />` : html`<div class="table-holder">
      <${Table} label="Sessions" rows=${pages.rows} columns=${COLUMNS} keyOf=${(/** @type {Session} */ session) => session.id}
        hrefOf=${sessionHref} open=${(/** @type {Session} */ session) => navigate(sessionHref(session))} more=${pages.more}
        classOf=${(/** @type {Session} */ session) => (session.errors ? 'failed' : '')}
        footer=${pages.isLoading ? html`<p class="table-foot soft" role="status">Loading…</p>` : null} /></div>`}
  </div>`;
}

/** @param {Session} session */
function sessionHref({ id }) {
  return href(['sessions', id]);
}

const COLUMNS = /** @type {import('../../components/table.js').Column<Session>[]} */ ([
  { name: 'name', title: 'Session', width: 'minmax(12rem, 3fr)', always: true, cell: ({ id }) => html`<bdi>${id}</bdi>` },
  { name: 'time', title: 'Last activity', width: '9rem', cell: ({ last }) => html`<time datetime=${last} title=${last}>${ago(last)}</time>` },
  { name: 'turns', title: 'Turns', width: '5rem', numeric: true, cell: ({ turns }) => short(turns) },
  { name: 'spans', title: 'Spans', width: '5rem', numeric: true, cell: ({ spans }) => short(spans) },
  { name: 'errors', title: 'Errors', width: '5rem', numeric: true, cell: ({ errors }) => (errors ? html`<span class="error-text">${short(errors)}</span>` : '') },
  { name: 'tokens', title: 'Tokens', width: '6rem', numeric: true, cell: ({ tokens }) => short(tokens) },
  { name: 'cost', title: 'Cost', width: '6rem', numeric: true, cell: (session) => cost(session.cost) },
]);

/**
 * What each session took, in the order of `ids`. A turn is a trace.
 * @param {string[]} ids
 * @param {object} windowing
 * @param {AbortSignal} abort
 * @returns {Promise<Session[]>}
 */
async function figures(ids, windowing, abort) {
  const answer = await post('spans/groups/query', {
    filtering: { conditions: [{ ...SESSION, operator: 'in', value: ids }] },
    windowing,
    group_by: [SESSION],
    measures: [{ of: 'count' }, { of: 'errors' }, { of: 'tokens', as: ['sum'] }, { of: 'cost', as: ['sum'] }, { of: 'trace_id', as: ['uniq'] }, { of: 'start_time', as: ['max'] }],
    limit: ids.length,
  }, abort);
  const byId = new Map(answer.groups.map((/** @type {any} */ group) => [group.by['ag.session.id'], group.values]));
  return ids.flatMap((id) => {
    const values = /** @type {any} */ (byId.get(id));
    if (!values) return [];
    return [{ id, turns: values.trace_id.uniq, spans: values.count, errors: values.errors, tokens: values.tokens?.sum ?? null, cost: values.cost?.sum ?? null, last: values.start_time.max }];
  });
}

function NoSessions() {
  return html`<div class="notice empty"><h2>No sessions</h2>
    <p>A session joins the traces of one conversation. Set the attribute <code>session.id</code>, <code>gen_ai.conversation.id</code>
      or <code>ag.session.id</code> on the spans, and the conversation appears here.</p></div>`;
}
