/** Events of a span with their stack traces. */
import { html } from 'htm/preact';
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
