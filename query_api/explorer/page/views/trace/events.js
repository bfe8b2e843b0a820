/** Events of a span with their stack traces, and its links to other traces and to revisions. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { duration } from '../../app/format.js';
import { JsonTree, LongText } from '../../components/json_tree.js';

/** @param {{events: any[], start: string}} props */
export function Events({ events, start }) {
  const from = new Date(start).getTime();
  return events.map((event) => {
    const { 'exception.stacktrace': stack, ...attributes } = event.attributes ?? {};
    return html`<section class="event">
      <h3>${event.name} <span class="soft" title=${event.timestamp}>${duration(new Date(event.timestamp).getTime() - from) || '0 ms'} after the start</span></h3>
      ${Object.keys(attributes).length > 0 && html`<${JsonTree} value=${attributes} open=${2} />`}
      ${stack && html`<pre class="stack"><${LongText} text=${String(stack)} /></pre>`}
    </section>`;
  });
}

/** @param {{span: import('../../app/spans.js').Span}} props */
export function Links({ span }) {
  return html`
    ${(span.links ?? []).map((/** @type {any} */ link) => html`<section class="event">
      <h3><a href=${href(['traces', link.trace_id], { span: link.span_id })}>Span <code>${link.span_id}</code> of trace <code>${link.trace_id}</code></a></h3>
      ${link.attributes && html`<${JsonTree} value=${link.attributes} />`}
    </section>`)}
    ${(span.references ?? []).map((/** @type {any} */ reference) => html`<section class="event">
      <h3>Reference ${reference.attributes?.key ?? ''}</h3><${JsonTree} value=${reference} />
    </section>`)}`;
}
