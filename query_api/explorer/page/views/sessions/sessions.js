/** The sessions with the latest activity, and one session as a conversation over its traces. */
import { html } from 'htm/preact';
import { useEffect, useMemo } from 'preact/hooks';
import { href, navigate, param, setParams } from '../../app/address.js';
import { filterTitle } from '../../app/filter.js';
import { ago, allShown, cost, short } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { useTitle } from '../../app/title.js';
import { addConditions, currentFilter, FilterBar, wrongCondition } from '../../components/filter_bar/filter_bar.js';
import { InShort } from '../../components/in_short.js';
import { ErrorNotice, IncompleteNotice, NothingFound } from '../../components/notices.js';
import { Table } from '../../components/table.js';
import { ALL_TIME, TimeRange, timeRange } from '../../components/time_range.js';
import { UserLink } from '../../components/user_link.js';
import { SESSIONS_MAX, sessionsOf } from './found.js';
import { useMissing } from './missing.js';
import { SessionView } from './session.js';
import { useTexts } from './texts.js';

/** @typedef {import('./found.js').Session} Session */
/** @typedef {Session & {question?: string, answer?: string, want: (id: string) => void}} Row  `want` asks for the figures of a session. */

/** @param {{sessionId?: string}} props */
export function SessionsView({ sessionId }) {
  return sessionId ? html`<${SessionView} sessionId=${sessionId} />` : html`<${SessionList} />`;
}

function SessionList() {
  const filter = currentFilter();
  useTitle(filterTitle(filter));
  const { oldest, newest } = timeRange();
  const [sort, isAscending] = [param('sort') ?? '', param('order') === 'ascending'];
  const loaded = useLoaded((abort) => sessionsOf(filter, { oldest, newest }, abort), [JSON.stringify(filter), oldest, newest]);
  const { sessions: known, want } = useMissing(loaded.data?.rows ?? NONE, { oldest, newest });
  const sessions = useMemo(() => ordered(known, sort, isAscending), [known, sort, isAscending]);
  const missing = known.filter(({ totals }) => totals === undefined);
  useEffect(() => { if (FIGURES.includes(sort)) for (const { id } of missing) want(id); }, [sort, want, missing.length]);
  const texts = useTexts(sessions);
  const rows = useMemo(() => sessions.map((session) => ({
    ...session, want, question: texts.get(session.totals?.firstTrace ?? '')?.question, answer: texts.get(session.totals?.lastTrace ?? '')?.answer,
  })), [sessions, texts, want]);
  const isFiltered = filter.conditions.length > 0;
  return html`<div class="list-view">
    <div class="bar"><${FilterBar} error=${loaded.error} /><div class="controls"><${TimeRange} /></div></div>
    ${isFiltered && html`<p class="ranking">Sessions with a trace that matches. Their figures are those of the whole sessions in the time range.</p>`}
    ${FIGURES.includes(sort) && missing.length > 0 && html`<p class="ranking" role="status">The figures of ${missing.length} more ${missing.length === 1 ? 'session' : 'sessions'} are being added up; then the order is complete.</p>`}
    ${loaded.error && wrongCondition(loaded.error) === null && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data?.complete === false && html`<${IncompleteNotice}>The query ran out of its budget: older sessions are missing. Choose a shorter time range.</${IncompleteNotice}>`}
    ${loaded.isLoading && !loaded.data && html`<p class="loading" role="status">Loading…</p>`}
    ${loaded.data && rows.length === 0 && (isFiltered || oldest || newest
      ? html`<${NothingFound} what="session" clear=${() => setParams({ filter: null, oldest: ALL_TIME, newest: null })} />` : html`<${NoSessions} />`)}
    ${rows.length > 0 && html`<div ...${marksOf(loaded, 'table-holder')}>
      <${Table} label="Sessions" rows=${rows} isOld=${loaded.isOld} columns=${COLUMNS} keyOf=${(/** @type {Row} */ session) => session.id}
        hrefOf=${sessionHref} open=${(/** @type {Row} */ session) => navigate(sessionHref(session))} add=${addConditions}
        sort=${sort} isAscending=${isAscending} setSort=${(/** @type {string} */ by) => setSort(by, by === sort ? !isAscending : NAMES.includes(by))}
        classOf=${(/** @type {Row} */ session) => (session.totals?.errors ? 'failed' : '')}
        footer=${html`<p class="table-foot soft">${rows.length === SESSIONS_MAX ? `In this order, the ${SESSIONS_MAX} sessions with the latest activity. Choose a time range or a filter to see others.` : allShown(rows.length)}</p>`} /></div>`}
  </div>`;
}

/** @param {string} sort @param {boolean} isAscending */
function setSort(sort, isAscending) {
  setParams({ sort, order: isAscending ? 'ascending' : null });
}

/** @param {{id: string}} session */
function sessionHref({ id }) {
  return href(['sessions', id]);
}

/** Orders that begin with the first name; all others begin with the highest value. */
const NAMES = ['name', 'user'];

/** Orders by what the sessions took. */
const FIGURES = ['user', 'spans', 'errors', 'tokens', 'cost'];
const NONE = /** @type {Session[]} */ ([]);
const NOT_ORDERED = 'There is no order by texts';
const VALUES = /** @type {Record<string, (session: Session) => string | number | undefined>} */ ({
  '': ({ last }) => last, name: ({ id }) => id, user: ({ totals }) => totals?.user, turns: ({ turns }) => turns, spans: ({ totals }) => totals?.spans,
  errors: ({ totals }) => totals?.errors, tokens: ({ totals }) => totals?.tokens, cost: ({ totals }) => totals?.cost,
});

const COLUMNS = /** @type {import('../../components/table.js').Column<Row>[]} */ ([
  { name: 'name', title: 'Session', width: 'minmax(10rem, 2fr)', always: true, sort: 'name', sortNote: 'In order of names', cell: ({ id }) => html`<bdi>${id}</bdi>` },
  { name: 'time', title: 'Last activity', width: '7.5rem', sort: '', cell: ({ last }) => html`<time datetime=${last} title=${last}>${ago(last)}</time>` },
  { name: 'question', title: 'First question', width: 'minmax(9rem, 3fr)', sortNote: NOT_ORDERED, cell: ({ question }) => html`<${InShort} text=${question} />` },
  { name: 'answer', title: 'Last answer', width: 'minmax(9rem, 3fr)', sortNote: NOT_ORDERED, cell: ({ answer }) => html`<${InShort} text=${answer} />` },
  { name: 'user', title: 'User', width: 'minmax(5rem, 1fr)', sort: 'user', sortNote: 'In order of names', cell: (row) => html`<${Figure} row=${row} value=${row.totals?.user && html`<${UserLink} id=${row.totals.user} />`} />`, quick: ({ totals }) => byUser(totals?.user) },
  { name: 'turns', title: 'Turns', width: '4rem', numeric: true, sort: 'turns', cell: ({ turns }) => short(turns) },
  { name: 'spans', title: 'Spans', width: '4rem', numeric: true, sort: 'spans', cell: (row) => html`<${Figure} row=${row} value=${short(row.totals?.spans)} />` },
  { name: 'errors', title: 'Errors', width: '4rem', numeric: true, sort: 'errors', cell: (row) => html`<${Figure} row=${row} value=${row.totals?.errors && html`<span class="error-text">${short(row.totals.errors)}</span>`} />` },
  { name: 'tokens', title: 'Tokens', width: '5rem', numeric: true, sort: 'tokens', cell: (row) => html`<${Figure} row=${row} value=${row.totals?.tokens && short(row.totals.tokens)} />` },
  { name: 'cost', title: 'Cost', width: '6rem', numeric: true, sort: 'cost', cell: (row) => html`<${Figure} row=${row} value=${row.totals?.cost && cost(row.totals.cost)} />` },
]);

/** A figure of a session, which asks for it when it is seen. @param {{row: Row, value: any}} props  Without a value it is empty. */
function Figure({ row, value }) {
  const isMissing = row.totals === undefined;
  useEffect(() => { if (isMissing) row.want(row.id); }, [row.want, row.id, isMissing]);
  if (isMissing) return html`<span class="soft" title="Being added up">…</span>`;
  return row.totals === null ? html`<span class="soft" title="It could not be added up: the session has too many turns, or the request failed">–</span>` : value || '';
}

/** @param {string | undefined} user  @returns {import('../../components/value_menu.js').Quick | null} */
function byUser(user) {
  return user ? { condition: { field: 'user', operator: 'is', value: user }, text: user, others: [] } : null;
}

/**
 * All that are listed are here, so every value has an order. A session without the value comes last.
 * @param {readonly Session[]} sessions
 * @param {string} sort
 * @param {boolean} isAscending
 */
function ordered(sessions, sort, isAscending) {
  const valueOf = VALUES[sort] ?? VALUES[''];
  return sessions.toSorted((a, b) => {
    const [first, second] = [valueOf?.(a), valueOf?.(b)];
    if (first === undefined || second === undefined) return (first === undefined ? 1 : 0) - (second === undefined ? 1 : 0);
    return first === second ? 0 : (first < second) === isAscending ? -1 : 1;
  });
}

function NoSessions() {
  return html`<div class="notice empty"><h2>No sessions</h2>
    <p>A session joins the traces of one conversation. Set the attribute <code>session.id</code>, <code>gen_ai.conversation.id</code>
      or <code>ag.session.id</code> on the spans, and the conversation appears here.</p></div>`;
}
