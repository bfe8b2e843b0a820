/** One user: what their requests took, their sessions and their latest requests. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { post } from '../../app/api.js';
import { writeFilter } from '../../app/filter.js';
import { cost, duration, number } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { useTitle } from '../../app/title.js';
import { BackLink } from '../../components/back_link.js';
import { ErrorNotice } from '../../components/notices.js';
import { SessionLink } from '../../components/session_link.js';
import { Time } from '../../components/time.js';
import { TimeRange, timeRange } from '../../components/time_range.js';
import { totalsBySession } from '../sessions/totals.js';

const SESSIONS_MAX = 100;
const REQUESTS_MAX = 20;
const SESSION = 'session';

/** @typedef {{oldest?: string, newest?: string}} Range */
/** @typedef {{ofUser: import('../../app/filter.js').Condition, range: Range}} Props */

/** @param {{userId: string}} props */
export function UserView({ userId }) {
  const ofUser = { field: 'user', operator: 'is', value: userId };
  useTitle(userId);
  const range = timeRange();
  const list = (/** @type {string} */ name, /** @type {string} */ sort = '') => href([name], { filter: writeFilter({ conditions: [ofUser] }), oldest: range.oldest ?? 'all', newest: range.newest, sort });
  return html`<div class="page">
    <div class="page-head"><${BackLink} to="users" /><h1><bdi>${userId}</bdi></h1>
      <a href=${list('traces')}>All requests</a><a href=${list('spans')}>All spans</a><div class="controls"><${TimeRange} /></div></div>
    <${Totals} userId=${userId} ofUser=${ofUser} range=${range} />
    <${Sessions} ofUser=${ofUser} range=${range} />
    <${Requests} ofUser=${ofUser} range=${range} all=${list('traces')} />
  </div>`;
}

/** @param {Props & {userId: string}} props */
function Totals({ userId, ofUser, range }) {
  const loaded = useLoaded((abort) => totalsBySession({ conditions: [ofUser] }, range, abort, userId), [userId, range.oldest, range.newest]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="soft" role="status">Loading…</p>`;
  const totals = loaded.data.bySession.get(userId);
  if (!totals) return html`<p class="soft">No span of this time names this user.</p>`;
  return html`<dl ...${marksOf(loaded, 'facts session-totals')}>
    <div><dt>Requests</dt><dd>${number(totals.turns)}</dd></div>
    <div><dt>Spans</dt><dd>${number(totals.spans)}</dd></div>
    <div><dt>Failed spans</dt><dd class=${totals.errors ? 'error-text' : ''}>${number(totals.errors)}</dd></div>
    <div><dt>Tokens</dt><dd>${number(totals.tokens)}</dd></div>
    <div><dt>Cost</dt><dd>${cost(totals.cost)}</dd></div>
    <div><dt>First seen</dt><dd><${Time} value=${totals.first} /></dd></div>
    <div><dt>Last seen</dt><dd><${Time} value=${totals.last} /></dd></div>
    ${!loaded.data.complete && html`<div class="soft" role="status">Of the latest ${number(totals.turns)} requests; there are more.</div>`}
  </dl>`;
}

/** @param {Props} props */
function Sessions({ ofUser, range }) {
  const loaded = useLoaded((abort) => post('spans/groups/query', {
    filtering: { conditions: [ofUser, { field: SESSION, operator: 'exists' }] }, windowing: range, group_by: [SESSION],
    measures: [{ of: 'trace_id', as: ['uniq'] }, { of: 'errors' }, { of: 'start_time', as: ['min', 'max'] }],
    order_by: { of: 'start_time', as: 'max' }, limit: SESSIONS_MAX,
  }, abort), [ofUser.value, range.oldest, range.newest]);
  const groups = loaded.data?.groups ?? [];
  return html`<section ...${marksOf(loaded, 'card')}><h2>Sessions</h2>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${!loaded.data && !loaded.error && html`<p class="soft" role="status">Loading…</p>`}
    ${loaded.data && groups.length === 0 && html`<p class="soft">No span of this user names a session.</p>`}
    ${groups.length > 0 && html`<table class="plain"><thead><tr><th>Session</th><th class="numeric">Turns</th><th class="numeric" title="Failed spans that name both the user and the session">Failed spans</th><th class="wide">Started</th><th>Last activity</th></tr></thead><tbody>
      ${groups.map((/** @type {any} */ { by, values }) => html`<tr key=${by[SESSION]}>
        <td><${SessionLink} id=${String(by[SESSION])} /></td><td class="numeric">${number(values.trace_id.uniq)}</td>
        <td class="numeric ${values.errors ? 'error-text' : ''}">${values.errors || ''}</td>
        <td class="wide"><${Time} value=${values.start_time.min} /></td><td><${Time} value=${values.start_time.max} /></td></tr>`)}
    </tbody></table>`}
    ${loaded.data?.others && html`<p class="soft">and ${number(loaded.data.others.groups_count)} more</p>`}
  </section>`;
}

/** @param {Props & {all: string}} props */
function Requests({ ofUser, range, all }) {
  const loaded = useLoaded((abort) => post('traces/summaries/query', { filtering: { conditions: [ofUser] }, windowing: { ...range, limit: REQUESTS_MAX } }, abort), [ofUser.value, range.oldest, range.newest]);
  const traces = loaded.data?.summaries ?? [];
  return html`<section ...${marksOf(loaded, 'card')}><h2>Latest requests</h2>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${!loaded.data && !loaded.error && html`<p class="soft" role="status">Loading…</p>`}
    ${traces.length > 0 && html`<table class="plain"><thead><tr><th>Request</th><th class="wide">Session</th><th class="numeric">Errors</th><th class="numeric">Cost</th><th class="numeric">Duration</th><th>Started</th></tr></thead><tbody>
      ${traces.map((/** @type {any} */ trace) => html`<tr key=${trace.trace_id}>
        <td><a href=${href(['traces', trace.trace_id])}><bdi>${trace.span_name || '(no name)'}</bdi></a></td><td class="wide"><${SessionLink} id=${trace.session_id} /></td>
        <td class="numeric ${trace.errors_count ? 'error-text' : ''}">${trace.errors_count || ''}</td><td class="numeric">${cost(trace.cost)}</td>
        <td class="numeric">${duration(trace.duration)}</td><td><${Time} value=${trace.start_time} /></td></tr>`)}
    </tbody></table>`}
    ${loaded.data?.windowing?.next && html`<p><a href=${all}>All requests</a></p>`}
  </section>`;
}
