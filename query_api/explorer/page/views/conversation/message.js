/** One message: who says it, its reasoning, its content and the tools that it calls. */
import { html } from 'htm/preact';
import { isObject, textOf } from '../../app/spans.js';
import { JsonTree } from '../../components/json_tree.js';
import { Content, parsed, Part } from './content.js';
import { Reasoning } from './reasoning.js';

/** @param {import('./conversation.js').Turn} props */
export function Message({ side, message }) {
  const role = textOf(message.role) || (side === 'output' ? 'assistant' : 'user');
  const isResult = role === 'tool';
  return html`<article class="message role-${role.replace(/\W/g, '')} ${side}">
    <header><span class="role">${role}</span>
      ${message.name && html`<span class="soft">${textOf(message.name)}</span>`}
      ${message.tool_call_id && html`<code class="soft">${textOf(message.tool_call_id)}</code>`}
      ${message.finish_reason && html`<span class="soft finish">${textOf(message.finish_reason)}</span>`}
    </header>
    ${message.reasoning && html`<${Reasoning} text=${message.reasoning} />`}
    <${Content} content=${message.content} isResult=${isResult} />
    ${Array.isArray(message.parts) && message.parts.map((/** @type {any} */ part) => html`<${Part} part=${part} isResult=${isResult} />`)}
    ${Array.isArray(message.tool_calls) && message.tool_calls.map((/** @type {any} */ call) => html`<${ToolCall} call=${call} />`)}
  </article>`;
}

/** @param {{call: any}} props */
function ToolCall({ call }) {
  const name = call?.name ?? call?.function?.name ?? 'tool';
  const sent = isObject(call) ? call.arguments ?? call.function?.arguments : call;
  const read = typeof sent === 'string' ? parsed(sent) ?? sent : sent;
  return html`<div class="tool-call">
    <header><span class="soft">calls</span> <strong>${textOf(name)}</strong> ${call?.id && html`<code class="soft">${textOf(call.id)}</code>`}</header>
    ${read !== undefined && html`<${JsonTree} value=${read} open=${3} />`}
  </div>`;
}
