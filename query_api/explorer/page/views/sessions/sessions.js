/** The sessions with the latest activity, and one session as a conversation over its traces. */
import { html } from 'htm/preact';
import { href, navigate } from '../../app/address.js';
import { post } from '../../app/api.js';
import { ago, allShown, cost, short } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice, IncompleteNotice } from '../../components/notices.js';
import { Table } from '../../components/table.js';
import { TimeRange, timeRange } from '../../components/time_range.js';
import { SessionView } from './session.js';
import { totalsBySession } from './totals.js';

const SESSIONS_MAX = 500;

/** Sessions whose traces also belong to another session: each takes a request. */
const ASKED_ALONE_MAX = 10;
const SESSION = 'session';

/** @typedef {{id: string, turns: number, last: string, totals: import('./totals.js').Totals | null}} Session  `totals` is `null` if its traces are too many to add up. */

/** @param {{sessionId?: string}} props */
export function SessionsView({ sessionId }) {
  return sessionId ? html`<${SessionView} sessionId=${sessionId} />` : html`<${SessionList} />`;
}

function SessionList() {
  const { oldest, newest } = timeRange();
  const loaded = useLoaded((abort) => sessions({ oldest, newest }, abort), [oldest, newest]);
  const rows = loaded.data?.rows ?? [];
  return html`<div class="list-view">
    <div class="bar"><h1 class="bar-title">Sessions</h1><div class="controls"><${TimeRange} /></div></div>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data?.complete === false && html`<${IncompleteNotice}>The query ran out of its budget: older sessions are missing. Choose a shorter time range.</${IncompleteNotice}>`}
    ${loaded.isLoading && !loaded.data && html`<p class="loading" role="status">Loading…</p>`}
    ${loaded.data && rows.length === 0 && html`<${NoSessions} />`}
    ${rows.length > 0 && html`<div ...${marksOf(loaded, 'table-holder')}>
      <${Table} label="Sessions" rows=${rows} columns=${COLUMNS} keyOf=${(/** @type {Session} */ session) => session.id}
        hrefOf=${sessionHref} open=${(/** @type {Session} */ session) => navigate(sessionHref(session))}
        classOf=${(/** @type {Session} */ session) => (session.totals?.errors ? 'failed' : '')}
        footer=${html`<p class="table-foot soft">${rows.length === SESSIONS_MAX ? `The ${SESSIONS_MAX} sessions with the latest activity. Choose a time range to see others.` : allShown(rows.length)}</p>`} /></div>`}
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
  { name: 'spans', title: 'Spans', width: '5rem', numeric: true, cell: ({ totals }) => short(totals?.spans) },
  { name: 'errors', title: 'Errors', width: '5rem', numeric: true, cell: ({ totals }) => (totals?.errors ? html`<span class="error-text">${short(totals.errors)}</span>` : '') },
  { name: 'tokens', title: 'Tokens', width: '6rem', numeric: true, cell: ({ totals }) => (totals?.tokens ? short(totals.tokens) : '') },
  { name: 'cost', title: 'Cost', width: '7rem', numeric: true, cell: ({ totals }) => (totals?.cost ? cost(totals.cost) : '') },
]);

/**
 * The sessions with the latest activity, and what each took. A turn is a trace.
 * @param {object} windowing
 * @param {AbortSignal} abort
 * @returns {Promise<{rows: Session[], complete: boolean}>}
 */
async function sessions(windowing, abort) {
  const filtering = { conditions: [{ field: SESSION, operator: 'exists' }] };
  const groups = post('spans/groups/query', {
    filtering,
    windowing,
    group_by: [SESSION],
    measures: [{ of: 'trace_id', as: ['uniq'] }, { of: 'start_time', as: ['max'] }],
    order_by: { of: 'start_time', as: 'max' },
    limit: SESSIONS_MAX,
  }, abort);
  const [answer, { bySession }] = await Promise.all([groups, totalsBySession(filtering, windowing, abort)]);
  const found = answer.groups.map((/** @type {any} */ { by, values }) => {
    const id = String(by[SESSION]);
    return { id, turns: values.trace_id.uniq, last: values.start_time.max, totals: bySession.get(id) ?? null };
  });
  let asked = 0;
  const rows = await Promise.all(found.map(async (/** @type {Session} */ session) => {
    if ((session.totals?.turns ?? 0) >= session.turns) return session;
    if ((asked += 1) > ASKED_ALONE_MAX) return { ...session, totals: null };
    const ofSession = { conditions: [{ field: SESSION, operator: 'is', value: session.id }] };
    const alone = await totalsBySession(ofSession, windowing, abort, session.id);
    return { ...session, totals: alone.complete ? alone.bySession.get(session.id) ?? null : null };
  }));
  return { rows, complete: answer.complete !== false };
}

function NoSessions() {
  return html`<div class="notice empty"><h2>No sessions</h2>
    <p>A session joins the traces of one conversation. Set the attribute <code>session.id</code>, <code>gen_ai.conversation.id</code>
      or <code>ag.session.id</code> on the spans, and the conversation appears here.</p></div>`;
}
