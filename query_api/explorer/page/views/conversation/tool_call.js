/** A call of a tool with its result: one line, which opens to the arguments and the result. */
import { html } from 'htm/preact';
import { isObject, objectsOf, textOf } from '../../app/spans.js';
import { JsonTree, LongText } from '../../components/json_tree.js';
import { Content, parsed, Parts } from './content.js';

/** @typedef {Record<string, any>} Sent */

const PREVIEW_MAX = 120;

/**
 * The results of calls, by the call: a result belongs to the last call before it that has its id and no result yet.
 * @param {Sent[]} messages
 */
export function resultsOf(messages) {
  /** @type {Map<unknown, Sent>} */
  const results = new Map();
  /** @type {Map<string, Sent[]>} */
  const waiting = new Map();
  for (const message of messages) {
    for (const call of objectsOf(message.tool_calls)) {
      const id = textOf(call.id);
      if (id) waiting.set(id, [...(waiting.get(id) ?? []).slice(-1), call]);
    }
    const call = message.role === 'tool' ? waiting.get(textOf(message.tool_call_id))?.pop() : undefined;
    if (call) results.set(call, message);
  }
  return results;
}

/** @param {{call: any, result?: Sent}} props */
export function ToolCall({ call, result }) {
  const name = textOf(call?.name ?? call?.function?.name) || 'tool';
  const sent = isObject(call) ? call.arguments ?? call.function?.arguments : call;
  const read = typeof sent === 'string' ? parsed(sent) ?? sent : sent;
  return html`<details class="tool-call">
    <summary><strong>${name}</strong> <span class="soft preview">${previewOf(read)}</span>${result && html`<span class="soft preview"> → ${previewOf(result.content ?? result.parts)}</span>`}</summary>
    <h4>Arguments ${textOf(call?.id) && html`<code class="soft">${textOf(call.id)}</code>`}</h4>
    ${typeof read === 'string' ? html`<p class="text"><${LongText} text=${read} /></p>` : html`<${JsonTree} value=${read ?? {}} open=${3} />`}
    ${result && html`<h4>Result</h4><${Content} content=${result.content} isResult=${true} /><${Parts} parts=${result.parts} isResult=${true} />`}
  </details>`;
}

/** The beginning of a value on one line. @param {unknown} value */
function previewOf(value) {
  const text = textOf(typeof value === 'string' ? value.slice(0, PREVIEW_MAX * 4) : value).replace(/\s+/g, ' ');
  return text.length > PREVIEW_MAX ? `${text.slice(0, PREVIEW_MAX)}…` : text;
}
