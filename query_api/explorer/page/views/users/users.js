/** The users with the latest activity, and one user with their sessions and requests. */
import { html } from 'htm/preact';
import { href, navigate } from '../../app/address.js';
import { post } from '../../app/api.js';
import { ago, allShown, cost, number, short } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice, IncompleteNotice } from '../../components/notices.js';
import { Table } from '../../components/table.js';
import { TimeRange, timeRange } from '../../components/time_range.js';
import { UserView } from './user.js';

const USERS_MAX = 500;
const USER = 'user';
const [COST, TOKENS] = ['costs', 'tokens'].map((unit) => `ag.metrics.${unit}.cumulative.total`);

/** @typedef {{id: string, first: string, last: string, sessions: number, traces: number, failed: number, tokens: number, cost: number}} User */

/** @param {{userId?: string}} props */
export function UsersView({ userId }) {
  return userId ? html`<${UserView} userId=${userId} />` : html`<${UserList} />`;
}

function UserList() {
  const { oldest, newest } = timeRange();
  const loaded = useLoaded((abort) => users({ oldest, newest }, abort), [oldest, newest]);
  const rows = loaded.data?.rows ?? [];
  return html`<div class="list-view">
    <div class="bar"><h1 class="bar-title">Users</h1><div class="controls"><${TimeRange} /></div></div>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data?.complete === false && html`<${IncompleteNotice}>The query ran out of its budget: older activity is missing. Choose a shorter time range.</${IncompleteNotice}>`}
    ${loaded.isLoading && !loaded.data && html`<p class="loading" role="status">Loading…</p>`}
    ${loaded.data && rows.length === 0 && html`<div class="notice empty"><h2>No users</h2>
      <p>Set the attribute <code>user.id</code> or <code>ag.user.id</code> on the first span of a request, and its user appears here.</p></div>`}
    ${rows.length > 0 && html`<div ...${marksOf(loaded, 'table-holder')}>
      <${Table} label="Users" name="users" rows=${rows} isOld=${loaded.isOld} columns=${COLUMNS} keyOf=${(/** @type {User} */ user) => user.id}
        hrefOf=${userHref} open=${(/** @type {User} */ user) => navigate(userHref(user))}
        classOf=${(/** @type {User} */ user) => (user.failed ? 'failed' : '')}
        footer=${html`<p class="table-foot soft">${rows.length === USERS_MAX ? `The ${USERS_MAX} users with the latest activity. Choose a time range to see others.` : allShown(rows.length)}</p>`} /></div>`}
  </div>`;
}

/** @param {User} user */
function userHref({ id }) {
  const { oldest, newest } = timeRange();
  return href(['users', id], { oldest, newest });
}

const COLUMNS = /** @type {import('../../components/table.js').Column<User>[]} */ ([
  { name: 'name', title: 'User', width: 'minmax(12rem, 3fr)', always: true, cell: ({ id }) => html`<bdi>${id}</bdi>` },
  { name: 'time', title: 'Last seen', width: '8rem', cell: ({ last }) => html`<time datetime=${last} title=${last}>${ago(last)}</time>` },
  { name: 'first', title: 'First seen', width: '8rem', cell: ({ first }) => html`<time datetime=${first} title=${first}>${ago(first)}</time>` },
  { name: 'sessions', title: 'Sessions', width: '5.5rem', numeric: true, cell: ({ sessions }) => number(sessions) },
  { name: 'traces', title: 'Requests', width: '5.5rem', numeric: true, cell: ({ traces }) => number(traces) },
  { name: 'failed', title: 'Failed', width: '5rem', numeric: true, cell: ({ failed }) => (failed ? html`<span class="error-text">${number(failed)}</span>` : '') },
  { name: 'tokens', title: 'Tokens', width: '6rem', numeric: true, cell: ({ tokens }) => (tokens ? short(tokens) : '') },
  { name: 'cost', title: 'Cost', width: '7rem', numeric: true, cell: ({ cost: usd }) => (usd ? cost(usd) : '') },
]);

/**
 * The users with the latest activity. Where the first span of a request names the user, the figures are those of whole
 * requests; else of the spans that name them.
 * @param {object} windowing
 * @param {AbortSignal} abort
 * @returns {Promise<{rows: User[], complete: boolean}>}
 */
async function users(windowing, abort) {
  const isNamed = { field: USER, operator: 'exists' };
  const order = { group_by: [USER], order_by: { of: 'start_time', as: 'max' }, limit: USERS_MAX, windowing };
  const ofSpans = post('spans/groups/query', {
    ...order, filtering: { conditions: [isNamed] },
    measures: [{ of: 'start_time', as: ['min', 'max'] }, { of: 'session', as: ['uniq'] }, { of: 'trace_id', as: ['uniq'] }, { of: 'errors' }, { of: 'tokens', as: ['sum'] }, { of: 'cost', as: ['sum'] }],
  }, abort);
  const ofRequests = post('spans/groups/query', {
    ...order, filtering: { conditions: [isNamed, { field: 'parent_id', operator: 'not_exists' }] },
    measures: [{ of: 'errors' }, ...[TOKENS, COST].map((of) => ({ of, as: ['sum'] }))],
  }, abort);
  const [spans, requests] = await Promise.all([ofSpans, ofRequests]);
  const whole = new Map(requests.groups.map((/** @type {any} */ { by, values }) => [by[USER], values]));
  const rows = spans.groups.map((/** @type {any} */ { by, values }) => {
    const ofWhole = whole.get(by[USER]);
    const most = (/** @type {number} */ own = 0, name = '') => Math.max(own, ofWhole?.[name]?.sum ?? 0);
    return {
      id: String(by[USER]), first: values.start_time.min, last: values.start_time.max, sessions: values.session.uniq, traces: values.trace_id.uniq,
      failed: ofWhole?.errors ?? values.errors, tokens: most(values.tokens?.sum, TOKENS), cost: most(values.cost?.sum, COST),
    };
  });
  return { rows, complete: spans.complete !== false && requests.complete !== false };
}
