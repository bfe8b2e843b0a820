/** The messages of a model call: what went in, then what came out. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { number } from '../../app/format.js';
import { useLoaded } from '../../app/loading.js';
import { messagesOf } from '../../app/messages.js';
import { attribute } from '../../app/spans.js';
import { JsonTree } from '../../components/json_tree.js';
import { PlainSwitch } from '../../components/markdown.js';
import { Message } from './message.js';
import { loadRepeats } from './repeats.js';
import { resultsOf } from './tool_call.js';

const MESSAGES_MAX = 200;

/** @param {{span: import('../../app/spans.js').Span}} props */
export function Conversation({ span }) {
  const repeats = useLoaded((abort) => loadRepeats(span, abort), [span.trace_id, span.span_id]);
  if (repeats.data === null && !repeats.error) return html`<p class="soft" role="status">Loading the messages…</p>`;
  return html`<div class="conversation">
    <p class="conversation-head"><${PlainSwitch} /></p>
    <${Messages} turns=${messagesOf(span)} folded=${repeats.data ?? 0} label="as before" />
    <${Tools} tools=${attribute(span, 'ag.data.inputs.tools') ?? attribute(span, 'ag.data.parameters.tools')} />
  </div>`;
}

/**
 * Messages, without the first ones until these are asked for. Results of tools stand with their calls.
 * @param {{turns: import('../../app/messages.js').Turn[], folded: number, label: string}} props
 */
export function Messages({ turns, folded, label }) {
  const [isWhole, setWhole] = useState(false);
  const results = resultsOf(turns.map(({ message }) => message));
  const paired = new Set(results.values());
  const first = Math.max(folded, turns.length - MESSAGES_MAX);
  const visible = (isWhole ? turns : turns.slice(first)).filter(({ message }) => !paired.has(message));
  return html`${first > 0 && html`<button class="quiet folded" aria-expanded=${isWhole} onClick=${() => setWhole(!isWhole)}>
      <span class="arrow" aria-hidden="true">${isWhole ? '▾' : '▸'}</span> ${number(first)} ${first === 1 ? 'message' : 'messages'} ${folded === first ? label : 'before these'}</button>`}
    ${visible.map(({ side, message }) => html`<${Message} side=${side} message=${message} results=${results} />`)}`;
}

/** @param {{tools: unknown}} props */
function Tools({ tools }) {
  if (!Array.isArray(tools) || tools.length === 0) return null;
  return html`<details class="tools"><summary>${tools.length} ${tools.length === 1 ? 'tool' : 'tools'} offered to the model</summary>
    <${JsonTree} value=${tools} open=${1} /></details>`;
}
