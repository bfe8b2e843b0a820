/** One session: what it took, and its traces in order, each with what went in and what came out. */
import { html } from 'htm/preact';
import { useCallback } from 'preact/hooks';
import { href } from '../../app/address.js';
import { post } from '../../app/api.js';
import { cost, duration, number, short } from '../../app/format.js';
import { useLoaded, usePages } from '../../app/loading.js';
import { messagesOf, repeatsOf } from '../../app/messages.js';
import { attribute, isError, isRunning } from '../../app/spans.js';
import { useTitle } from '../../app/title.js';
import { BackLink } from '../../components/back_link.js';
import { JsonTree } from '../../components/json_tree.js';
import { Markdown, PlainSwitch } from '../../components/markdown.js';
import { ErrorNotice, IncompleteNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { UsersOf } from '../../components/user_link.js';
import { Messages } from '../conversation/conversation.js';
import { spansHref } from '../trace/span_filter.js';
import { totalsBySession } from './totals.js';

const PAGE = 50;
const SPANS_MAX = 500;

/** @typedef {{trace: any, span: import('../../app/spans.js').Span | undefined}} Turn  A trace, and the topmost of its spans in the session. */

/** @param {{sessionId: string}} props */
export function SessionView({ sessionId }) {
  const ofSession = { field: 'session', operator: 'is', value: sessionId };
  const loadPage = useCallback(async (/** @type {string | null} */ next, /** @type {AbortSignal} */ abort) => {
    const windowing = { order: 'ascending', limit: PAGE, next: next ?? undefined };
    const answer = await post('traces/summaries/query', { filtering: { conditions: [ofSession] }, windowing }, abort);
    const spans = await topmost(answer.summaries.map((/** @type {any} */ trace) => trace.trace_id), ofSession, abort);
    const rows = answer.summaries.map((/** @type {any} */ trace) => ({ trace, span: spans.get(trace.trace_id) }));
    return { rows, next: answer.windowing?.next ?? null, complete: answer.complete !== false };
  }, [sessionId]);
  useTitle(sessionId);
  const pages = usePages(loadPage, [sessionId]);
  return html`<div class="page">
    <div class="page-head"><${BackLink} to="sessions" />
      <h1><bdi>${sessionId}</bdi></h1><a href=${spansHref([ofSession], 'traces')}>All traces</a><a href=${spansHref([ofSession])}>All spans</a><${UsersOf} condition=${ofSession} /></div>
    <${SessionTotals} sessionId=${sessionId} ofSession=${ofSession} />
    ${pages.error && html`<${ErrorNotice} error=${pages.error} retry=${pages.reload} />`}
    ${!pages.complete && html`<${IncompleteNotice}>The query ran out of its budget before it had examined the whole session.</${IncompleteNotice}>`}
    ${pages.rows.length > 0 && html`<p class="conversation-head"><${PlainSwitch} /></p>`}
    ${pages.rows.map((turn, place) => html`<${TurnCard} key=${turn.trace.trace_id} ...${turn} before=${pages.rows[place - 1]?.span} />`)}
    ${pages.isLoading && html`<p class="soft" role="status">Loading…</p>`}
    ${pages.next && html`<button onClick=${pages.more}>Show later turns</button>`}
    ${!pages.isLoading && pages.rows.length === 0 && !pages.error && html`<p class="soft">No span of this session is stored.</p>`}
  </div>`;
}

/**
 * The span that stands for each trace: its root, or its earliest span in the session if the root is not in it.
 * @param {string[]} traceIds
 * @param {object} ofSession
 * @param {AbortSignal} abort
 * @returns {Promise<Map<string, any>>}
 */
async function topmost(traceIds, ofSession, abort) {
  const found = new Map();
  for (const conditions of [[{ field: 'parent_id', operator: 'not_exists' }], []]) {
    const missing = traceIds.filter((id) => !found.has(id));
    if (missing.length === 0) break;
    const filtering = { conditions: [{ field: 'trace_id', operator: 'in', value: missing }, ofSession, ...conditions] };
    const { spans } = await post('spans/query', { filtering, windowing: { order: 'ascending', limit: SPANS_MAX } }, abort);
    for (const span of spans) if (!found.has(span.trace_id)) found.set(span.trace_id, span);
  }
  return found;
}

/** What the whole session took. @param {{sessionId: string, ofSession: object}} props */
function SessionTotals({ sessionId, ofSession }) {
  const loaded = useLoaded((abort) => totalsBySession({ conditions: [ofSession] }, {}, abort, sessionId), [sessionId]);
  const totals = loaded.data?.bySession.get(sessionId);
  if (!totals) return null;
  return html`<dl class="facts session-totals">
    <div><dt>Turns</dt><dd>${number(totals.turns)}</dd></div>
    <div><dt>Spans</dt><dd>${number(totals.spans)}</dd></div>
    <div><dt>Errors</dt><dd class=${totals.errors ? 'error-text' : ''}>${number(totals.errors)}</dd></div>
    <div><dt>Tokens</dt><dd>${number(totals.tokens)}</dd></div>
    <div><dt>Cost</dt><dd>${cost(totals.cost)}</dd></div>
    <div><dt>Duration</dt><dd title="From the first start to the last end">${duration(new Date(totals.last).getTime() - new Date(totals.first).getTime())}</dd></div>
    <div><dt>Started</dt><dd><${Time} value=${totals.first} /></dd></div>
    <div><dt>Last activity</dt><dd><${Time} value=${totals.last} /></dd></div>
    ${!loaded.data?.complete && html`<div class="soft" role="status">Of the latest ${number(totals.turns)} turns; the session has more.</div>`}
  </dl>`;
}

/** @param {Turn & {before: Turn['span']}} props */
function TurnCard({ trace, span, before }) {
  const failed = span ? isError(span) : trace.errors_count > 0;
  const took = [isRunning(span ?? trace) ? 'running' : duration(trace.duration), trace.tokens && `${short(trace.tokens)} tokens`, trace.cost && cost(trace.cost)];
  return html`<section class="card turn ${failed ? 'failed' : ''}">
    <header><${Time} value=${trace.start_time} />
      <a href=${href(['traces', trace.trace_id], { span: span?.span_id })}><bdi>${span?.span_name ?? trace.span_name}</bdi></a>
      <span class="soft">${took.filter(Boolean).join(' · ')}</span>
      ${trace.errors_count > 0 && html`<span class="error-text">${number(trace.errors_count)} ${trace.errors_count === 1 ? 'error' : 'errors'}</span>`}</header>
    ${span && isError(span) && html`<p class="error-text">${span.status_message || 'failed'}</p>`}
    ${span && html`<${Exchange} span=${span} before=${before} />`}
  </section>`;
}

/**
 * The last message of a person, and what came after it; other inputs and outputs as they are.
 * @param {{span: any, before: any}} props  `before` is the span of the turn before.
 */
function Exchange({ span, before }) {
  const messages = messagesOf(span);
  if (messages.length) {
    const shared = before ? repeatsOf(messages, messagesOf(before)) : 0;
    const asked = messages.findLastIndex(({ side, message }) => side === 'input' && message.role === 'user');
    const folded = asked === -1 ? shared : asked;
    return html`<div class="conversation"><${Messages} turns=${messages} folded=${folded} label=${shared >= folded ? 'as before' : 'before this one'} /></div>`;
  }
  const [inputs, outputs] = [attribute(span, 'ag.data.inputs'), attribute(span, 'ag.data.outputs')];
  return html`<div class="conversation">
    ${inputs !== undefined && html`<article class="message input"><header><span class="role">in</span></header><${Value} value=${inputs} /></article>`}
    ${outputs !== undefined && html`<article class="message output"><header><span class="role">out</span></header><${Value} value=${outputs} /></article>`}
  </div>`;
}

/** @param {{value: unknown}} props */
function Value({ value }) {
  return typeof value === 'string' ? html`<${Markdown} text=${value} />` : html`<${JsonTree} value=${value} open=${2} />`;
}
