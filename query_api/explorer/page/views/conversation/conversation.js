/** The messages of a model call: what went in, then what came out. */
import { html } from 'htm/preact';
import { attribute, objectsOf } from '../../app/spans.js';
import { JsonTree } from '../../components/json_tree.js';
import { PlainSwitch } from '../../components/markdown.js';
import { Message } from './message.js';

/** @typedef {{side: 'input' | 'output', message: Record<string, any>}} Turn */

/**
 * @param {import('../../app/spans.js').Span} span
 * @returns {Turn[]}
 */
export function messagesOf(span) {
  return [...turns(attribute(span, 'ag.data.inputs.messages'), 'input'), ...turns(attribute(span, 'ag.data.outputs.messages'), 'output')];
}

/** @param {any} messages @param {'input' | 'output'} side @returns {Turn[]} */
function turns(messages, side) {
  return objectsOf(messages).map((message) => ({ side, message }));
}

/** @param {{span: import('../../app/spans.js').Span}} props */
export function Conversation({ span }) {
  return html`<div class="conversation">
    <p class="conversation-head"><${PlainSwitch} /></p>
    ${messagesOf(span).map(({ side, message }) => html`<${Message} side=${side} message=${message} />`)}
    <${Tools} tools=${attribute(span, 'ag.data.inputs.tools') ?? attribute(span, 'ag.data.parameters.tools')} />
  </div>`;
}

/** @param {{tools: unknown}} props */
function Tools({ tools }) {
  if (!Array.isArray(tools) || tools.length === 0) return null;
  return html`<details class="tools"><summary>${tools.length} ${tools.length === 1 ? 'tool' : 'tools'} offered to the model</summary>
    <${JsonTree} value=${tools} open=${1} /></details>`;
}
