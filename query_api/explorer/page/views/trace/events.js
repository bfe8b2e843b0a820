/** Events of a span with their stack traces. */
import { html } from 'htm/preact';
import { duration } from '../../app/format.js';
import { isObject, objectsOf, textOf } from '../../app/spans.js';
import { JsonTree, LongText } from '../../components/json_tree.js';

/** @param {{events: any[], start: string}} props */
export function Events({ events, start }) {
  const from = new Date(start).getTime();
  return objectsOf(events).map((event) => {
    const { 'exception.stacktrace': stack, ...attributes } = isObject(event.attributes) ? event.attributes : {};
    return html`<section class="event">
      <h3>${textOf(event.name)} <span class="soft" title=${event.timestamp}>${duration(new Date(event.timestamp).getTime() - from) || '0 ms'} after the start${event.source === 'log' && ', from a log record'}${textOf(event.severity_text) && `, ${textOf(event.severity_text)}`}</span></h3>
      ${textOf(event.body) ? html`<p><${LongText} text=${event.body} /></p>` : event.body != null && html`<${JsonTree} value=${event.body} open=${2} />`}
      ${Object.keys(attributes).length > 0 && html`<${JsonTree} value=${attributes} open=${2} />`}
      ${textOf(stack) && html`<pre class="stack"><${LongText} text=${stack} /></pre>`}
    </section>`;
  });
}
