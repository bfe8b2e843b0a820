/** What a view says when there is nothing to show, when something failed, and when an answer is not complete. */
import { html } from 'htm/preact';
import { ApiError, API } from '../app/api.js';
import { curlOf, otlpVariables, SetKey } from './commands.js';

/** @param {{error: Error, retry?: () => void, before?: string}} props  `before` is a sentence that says what failed. */
export function ErrorNotice({ error, retry, before = '' }) {
  const requestId = error instanceof ApiError ? error.requestId : null;
  return html`<div class="notice error" role="alert">
    <p class="text">${before}${error.message}</p>
    ${requestId && html`<p class="soft">Request <code>${requestId}</code></p>`}
    ${retry && html`<button onClick=${retry}>Try again</button>`}
  </div>`;
}

/** @param {{children?: any}} props */
export function IncompleteNotice({ children }) {
  return html`<div class="notice incomplete" role="status">
    ${children ?? 'The query ran out of its budget before it had examined everything. Scroll on to continue.'}
  </div>`;
}

/** Shown where nothing was ever stored: how to send a first span. @param {{showAside?: () => void}} props */
export function NothingYet({ showAside }) {
  return html`<div class="notice empty">
    <h2>No spans yet</h2>
    <${SetKey} />
    <p>Point any OpenTelemetry SDK at this address, or publish to the Kafka topic <code>otlp_spans</code>:</p>
    <pre>${otlpVariables(new URL('otlp', API).href)}</pre>
    <p>Or send one span by hand:</p>
    <pre>${curlOf('tracing/spans/ingest', { spans: [{ trace_id: '0a'.repeat(16), span_id: '0b'.repeat(8), span_name: 'hello' }] })}</pre>
    ${showAside && html`<p><button onClick=${showAside}>Look at annotations and audits too</button></p>`}
  </div>`;
}

/** @param {{what?: string, clear?: () => void, showAside?: () => void, children?: any}} props */
export function NothingFound({ what = 'span', clear, showAside, children }) {
  return html`<div class="notice empty">
    <h2>Nothing matches</h2>
    <p>No stored ${what} fulfils the filter in this time range.</p>
    ${children}
    <p class="actions">${clear && html`<button onClick=${clear}>Remove the filter</button>`}
      ${showAside && html`<button onClick=${showAside}>Look at annotations and audits too</button>`}</p>
  </div>`;
}
