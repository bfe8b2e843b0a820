/** The messages of a model call: what went in, then what came out, with tool calls and reasoning. */
import { html } from 'htm/preact';
import { attribute, isObject, objectsOf, textOf } from '../../app/spans.js';
import { JsonTree, LongText } from '../../components/json_tree.js';

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
    ${messagesOf(span).map(({ side, message }) => html`<${Message} side=${side} message=${message} />`)}
    <${Tools} tools=${attribute(span, 'ag.data.inputs.tools') ?? attribute(span, 'ag.data.parameters.tools')} />
  </div>`;
}

/** @param {Turn} props */
export function Message({ side, message }) {
  const role = textOf(message.role) || (side === 'output' ? 'assistant' : 'user');
  return html`<article class="message role-${role.replace(/\W/g, '')} ${side}">
    <header><span class="role">${role}</span>
      ${message.name && html`<span class="soft">${textOf(message.name)}</span>`}
      ${message.tool_call_id && html`<code class="soft">${textOf(message.tool_call_id)}</code>`}
      ${message.finish_reason && html`<span class="soft finish">${textOf(message.finish_reason)}</span>`}
    </header>
    ${message.reasoning && html`<${Reasoning} text=${message.reasoning} />`}
    <${Content} content=${message.content} />
    ${Array.isArray(message.parts) && message.parts.map((/** @type {any} */ part) => html`<${Part} part=${part} />`)}
    ${Array.isArray(message.tool_calls) && message.tool_calls.map((/** @type {any} */ call) => html`<${ToolCall} call=${call} />`)}
  </article>`;
}

/** @param {{content: unknown}} props */
function Content({ content }) {
  if (content === null || content === undefined || content === '') return null;
  if (typeof content === 'string') return html`<${TextOrJson} text=${content} />`;
  if (Array.isArray(content)) return content.map((part) => html`<${Part} part=${part} />`);
  return html`<${JsonTree} value=${content} open=${3} />`;
}

/** Texts that are JSON objects or lists can be opened as a tree. @param {{text: string}} props */
function TextOrJson({ text }) {
  const read = /^\s*[[{]/.test(text) && text.length < 200_000 ? parsed(text) : undefined;
  return read === undefined ? html`<p class="text"><${LongText} text=${text} /></p>` : html`<${JsonTree} value=${read} open=${3} />`;
}

/** @param {{part: any}} props */
function Part({ part }) {
  if (typeof part === 'string') return html`<${TextOrJson} text=${part} />`;
  if (!isObject(part)) return html`<${JsonTree} value=${part} />`;
  const text = part.text ?? part.content;
  if (part.type === 'reasoning' || part.type === 'thinking') return html`<${Reasoning} text=${text ?? part.thinking} />`;
  const url = part.image_url?.url ?? part.image_url ?? (part.type === 'image' ? part.url : undefined);
  if (typeof url === 'string') return html`<p class="text"><${Link} url=${url} /></p>`;
  if (typeof text === 'string') return html`<${TextOrJson} text=${text} />`;
  return html`<${JsonTree} value=${part} open=${2} />`;
}

/** An image is a link: the page never loads anything from another host. @param {{url: string}} props */
function Link({ url }) {
  const label = url.startsWith('data:') ? `image in the message (${url.length.toLocaleString('en')} characters)` : url;
  return /^https?:\/\//.test(url) ? html`<a href=${url} target="_blank" rel="noreferrer noopener">${label}</a>` : html`<span class="soft">${label}</span>`;
}

/** @param {{text: unknown}} props */
function Reasoning({ text }) {
  return html`<details class="reasoning"><summary>Reasoning</summary><p class="text"><${LongText} text=${text} /></p></details>`;
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

/** @param {{tools: unknown}} props */
function Tools({ tools }) {
  if (!Array.isArray(tools) || tools.length === 0) return null;
  return html`<details class="tools"><summary>${tools.length} ${tools.length === 1 ? 'tool' : 'tools'} offered to the model</summary>
    <${JsonTree} value=${tools} open=${1} /></details>`;
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
