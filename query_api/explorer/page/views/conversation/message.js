/** One message: who says it, what it thought, its content and the tools that it calls. */
import { html } from 'htm/preact';
import { textOf } from '../../app/spans.js';
import { Content, Parts } from './content.js';
import { Reasoning } from './reasoning.js';
import { ToolCall } from './tool_call.js';

/** @param {import('../../app/messages.js').Turn & {results?: Map<unknown, Record<string, any>>}} props  `results` of tools, by their calls. */
export function Message({ side, message, results }) {
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
    <${Parts} parts=${message.parts} isResult=${isResult} />
    ${Array.isArray(message.tool_calls) && message.tool_calls.map((/** @type {any} */ call) => html`<${ToolCall} call=${call} result=${results?.get(call)} />`)}
  </article>`;
}
