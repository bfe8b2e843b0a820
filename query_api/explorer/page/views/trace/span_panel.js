/** Everything about one span, in tabs. The tab is in the address. */
import { html } from 'htm/preact';
import { useEffect, useRef } from 'preact/hooks';
import { param, setParams } from '../../app/address.js';
import { API, get } from '../../app/api.js';
import { cost, duration, number } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { messagesOf } from '../../app/messages.js';
import { scoresOf } from '../../app/scores.js';
import {
  attribute, costOf, durationOf, isError, isObject, isRunning, modelOf, numberOf, objectsOf, serviceOf, sessionOf, textOf, tokensOf, userOf,
} from '../../app/spans.js';
import { Boundary } from '../../components/boundary.js';
import { keyHeader } from '../../components/commands.js';
import { CopyButton } from '../../components/copy.js';
import { JsonTree, LongText } from '../../components/json_tree.js';
import { ErrorNotice } from '../../components/notices.js';
import { SessionLink } from '../../components/session_link.js';
import { Time } from '../../components/time.js';
import { UserLink } from '../../components/user_link.js';
import { Conversation } from '../conversation/conversation.js';
import { FeedbackTab, useFeedback } from '../feedback/feedback_tab.js';
import { Thumbs } from '../feedback/thumbs.js';
import { Attributes } from './attributes.js';
import { Data } from './data.js';
import { Events } from './events.js';
import { Links } from './links.js';
import { SpanFilter } from './span_filter.js';

const MESSAGE_MAX = 300;

/** @param {{traceId: string, spanId: string, isRunning: boolean, close: () => void}} props  The span is loaded again when it ends. */
export function SpanPanel({ traceId, spanId, isRunning: runs, close }) {
  const loaded = useLoaded(async (abort) => (await get(`spans/${traceId}/${spanId}`, {}, abort)).span ?? null, [traceId, spanId]);
  const ran = useRef(runs);
  useEffect(() => {
    if (ran.current !== runs) loaded.reload();
    ran.current = runs;
  }, [runs]);
  return html`<aside class="span-panel" aria-label="The selected span">
    <button class="quiet panel-close" aria-label="Close the panel" onClick=${close}>×</button>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data ? html`<div ...${marksOf(loaded)}><${Details} span=${loaded.data} /></div>` : html`<p class="soft" role="status">${loaded.isLoading ? 'Loading the span…' : ''}</p>`}
  </aside>`;
}

/** @param {{span: import('../../app/spans.js').Span}} props */
function Details({ span }) {
  const feedback = useFeedback(/** @type {any} */ (span));
  const tabs = tabsOf(span, feedback);
  const current = tabs.find(({ name }) => name === param('tab')) ?? tabs[0];
  return html`
    <h2><bdi>${span.span_name || '(no name)'}</bdi>${span.span_name && html`<${SpanFilter} condition=${is('span_name', span.span_name)} />`}</h2>
    <${Facts} span=${span} />
    <${Exception} span=${span} />
    <p class="feedback-bar"><${Thumbs} span=${span} feedback=${feedback} /></p>
    <div class="tabs" role="tablist">
      ${tabs.map(({ name, title }) => html`<button role="tab" aria-selected=${name === current?.name}
        onClick=${() => setParams({ tab: name === tabs[0]?.name ? null : name }, { replace: true })}>${title}</button>`)}
    </div>
    <div class="tab-content" role="tabpanel"><${Boundary} key=${`${span.span_id} ${current?.name}`}>${current?.content()}</${Boundary}></div>`;
}

/** @param {import('../../app/spans.js').Span} span @param {ReturnType<typeof useFeedback>} feedback */
function tabsOf(span, feedback) {
  const tabs = [];
  const judgements = feedback.list.length + scoresOf(span).filter(({ source }) => source?.kind !== 'annotation').length;
  if (messagesOf(span).length) tabs.push({ name: 'conversation', title: 'Conversation', content: () => html`<${Conversation} span=${span} />` });
  const data = attribute(span, 'ag.data');
  if (isObject(data) && Object.keys(data).length) tabs.push({ name: 'data', title: 'Data', content: () => html`<${Data} data=${data} />` });
  tabs.push({ name: 'attributes', title: 'Attributes', content: () => html`<${Attributes} span=${span} />` });
  tabs.push({ name: 'scores', title: judgements ? `Feedback ${judgements}` : 'Feedback', content: () => html`<${FeedbackTab} span=${span} feedback=${feedback} />` });
  if (objectsOf(span.events).length) tabs.push({ name: 'events', title: `Events ${span.events.length}`, content: () => html`<${Events} events=${span.events} start=${span.start_time} />` });
  if (objectsOf(span.links).length || objectsOf(span.references).length) tabs.push({ name: 'links', title: 'Links', content: () => html`<${Links} span=${span} />` });
  tabs.push({ name: 'resource', title: 'Resource', content: () => html`<h3>Resource</h3><${JsonTree} value=${span.resource ?? {}} open=${5} action=${filterIn('resource')} /><h3>Scope</h3><${JsonTree} value=${span.scope ?? {}} open=${5} action=${filterIn('scope')} />` });
  tabs.push({ name: 'raw', title: 'JSON', content: () => html`<${Raw} span=${span} />` });
  return tabs;
}

/** @param {string} field @param {unknown} value @returns {import('../../app/filter.js').Condition} */
function is(field, value) {
  return { field, operator: 'is', value };
}

/**
 * Quick filters for the attributes of the resource or the scope, by their path in it.
 * @param {'resource' | 'scope'} field
 */
function filterIn(field) {
  return (/** @type {string} */ path, /** @type {unknown} */ value) => {
    const key = /^attributes\.(.+)/s.exec(path)?.[1];
    return key && html`<${SpanFilter} condition=${{ field, key, operator: 'is', value }} />`;
  };
}

/** @param {{span: import('../../app/spans.js').Span}} props */
function Facts({ span }) {
  const tokens = attribute(span, 'ag.metrics.tokens.incremental');
  return html`<dl class="facts">
    <div><dt>Started</dt><dd><${Time} value=${span.start_time} milliseconds /></dd></div>
    <div><dt>Duration</dt><dd>${isRunning(span) ? html`<span class="running-mark">running</span>` : duration(durationOf(span))}</dd></div>
    ${serviceOf(span) && html`<div><dt>Service</dt><dd>${serviceOf(span)}<${SpanFilter} condition=${is('service', serviceOf(span))} /></dd></div>`}
    ${modelOf(span) && html`<div><dt>Model</dt><dd>${modelOf(span)}<${SpanFilter} condition=${is('model', modelOf(span))} /></dd></div>`}
    ${sessionOf(span) && html`<div><dt>Session</dt><dd><${SessionLink} id=${sessionOf(span)} /><${SpanFilter} condition=${is('session', sessionOf(span))} /></dd></div>`}
    ${userOf(span) && html`<div><dt>User</dt><dd><${UserLink} id=${userOf(span)} /><${SpanFilter} condition=${is('user', userOf(span))} /></dd></div>`}
    ${tokensOf(span) != null && html`<div><dt>Tokens</dt><dd>${number(tokensOf(span))} <span class="soft">${[
      ['prompt', 'in'], ['completion', 'out'], ['cached', 'cached'], ['reasoning', 'reasoning'],
    ].map(([name = '', words]) => (numberOf(tokens?.[name]) ? `${number(tokens[name])} ${words}` : '')).filter(Boolean).join(', ')}</span></dd></div>`}
    ${costOf(span) != null && html`<div><dt>Cost</dt><dd>${cost(costOf(span))}</dd></div>`}
    <div><dt>Type</dt><dd>${span.span_type}<${SpanFilter} condition=${is('span_type', span.span_type)} /></dd></div>
    <div><dt>Kind</dt><dd>${String(span.span_kind ?? '').replace('SPAN_KIND_', '').toLowerCase()}</dd></div>
  </dl>`;
}

/** @param {{span: import('../../app/spans.js').Span}} props */
function Exception({ span }) {
  if (!isError(span)) return null;
  const exception = attribute(span, 'ag.exception') ?? {};
  const message = span.status_message || exception.message || 'The span has the status ERROR and no message.';
  return html`<div class="notice error compact" role="note">
    ${exception.type && html`<strong>${textOf(exception.type)}</strong>`}<p class="text"><${LongText} text=${message} max=${MESSAGE_MAX} /></p></div>`;
}

/** @param {{span: import('../../app/spans.js').Span}} props */
function Raw({ span }) {
  const text = JSON.stringify(span, null, 2);
  const curl = `curl ${new URL(`spans/${span.trace_id}/${span.span_id}`, API).href}${keyHeader()}`;
  return html`<p class="actions"><${CopyButton} text=${text} label="Copy JSON" /><${CopyButton} text=${curl} label="Copy curl" /></p>
    <pre class="curl">${curl}</pre><${JsonTree} value=${span} open=${1} />`;
}
