/** One session: its traces in order, each with what went in and what came out at its root. */
import { html } from 'htm/preact';
import { useCallback } from 'preact/hooks';
import { href } from '../../app/address.js';
import { post } from '../../app/api.js';
import { cost, duration, short } from '../../app/format.js';
import { usePages } from '../../app/loading.js';
import { attribute, durationOf, isError } from '../../app/spans.js';
import { JsonTree, LongText } from '../../components/json_tree.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { Message, messagesOf } from '../trace/conversation.js';

const PAGE = 50;

/** @param {{sessionId: string}} props */
export function SessionView({ sessionId }) {
  const loadPage = useCallback(async (/** @type {string | null} */ next, /** @type {AbortSignal} */ abort) => {
    const conditions = [
      { field: 'attributes', key: 'ag.session.id', operator: 'is', value: sessionId },
      { field: 'parent_id', operator: 'not_exists' },
    ];
    const answer = await post('spans/query', { filtering: { conditions }, windowing: { order: 'ascending', limit: PAGE, next: next ?? undefined } }, abort);
    return { rows: answer.spans, next: answer.windowing?.next ?? null, complete: answer.complete !== false };
  }, [sessionId]);
  const pages = usePages(loadPage, [sessionId]);
  return html`<div class="page">
    <div class="page-head"><a class="quiet" href=${href(['sessions'])} aria-label="Back to the sessions">←</a>
      <h1><bdi>${sessionId}</bdi></h1>
      <a href=${href(['spans'], { filter: JSON.stringify({ conditions: [{ field: 'attributes', key: 'ag.session.id', operator: 'is', value: sessionId }] }) })}>All spans</a></div>
    ${pages.error && html`<${ErrorNotice} error=${pages.error} retry=${pages.reload} />`}
    ${pages.rows.map((span) => html`<${Turn} key=${span.trace_id + span.span_id} span=${span} />`)}
    ${pages.isLoading && html`<p class="soft" role="status">Loading…</p>`}
    ${pages.next && html`<button onClick=${pages.more}>Show later turns</button>`}
    ${!pages.isLoading && pages.rows.length === 0 && !pages.error && html`<p class="soft">No root span of this session is stored.</p>`}
  </div>`;
}

/** @param {{span: import('../../app/spans.js').Span}} props */
function Turn({ span }) {
  const total = attribute(span, 'ag.metrics.tokens.cumulative.total');
  const usd = attribute(span, 'ag.metrics.costs.cumulative.total');
  return html`<section class="card turn ${isError(span) ? 'failed' : ''}">
    <header><${Time} value=${span.start_time} />
      <a href=${href(['traces', span.trace_id], { span: span.span_id })}><bdi>${span.span_name}</bdi></a>
      <span class="soft">${[duration(durationOf(span)), total != null && `${short(total)} tokens`, usd != null && cost(usd)].filter(Boolean).join(' · ')}</span></header>
    ${isError(span) && html`<p class="error-text">${span.status_message || 'failed'}</p>`}
    <${Exchange} span=${span} />
  </section>`;
}

/** The last message of a person and the answer; other inputs and outputs as they are. @param {{span: any}} props */
function Exchange({ span }) {
  const messages = messagesOf(span);
  if (messages.length) {
    const asked = messages.findLast(({ side, message }) => side === 'input' && message.role === 'user');
    const shown = [...(asked ? [asked] : []), ...messages.filter(({ side }) => side === 'output')];
    return html`<div class="conversation">${shown.map(({ side, message }) => html`<${Message} side=${side} message=${message} />`)}</div>`;
  }
  const [inputs, outputs] = [attribute(span, 'ag.data.inputs'), attribute(span, 'ag.data.outputs')];
  return html`<div class="conversation">
    ${inputs !== undefined && html`<article class="message input"><header><span class="role">in</span></header><${Value} value=${inputs} /></article>`}
    ${outputs !== undefined && html`<article class="message output"><header><span class="role">out</span></header><${Value} value=${outputs} /></article>`}
  </div>`;
}

/** @param {{value: unknown}} props */
function Value({ value }) {
  return typeof value === 'string' ? html`<p class="text"><${LongText} text=${value} /></p>` : html`<${JsonTree} value=${value} open=${2} />`;
}
