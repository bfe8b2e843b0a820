/** The content of a message: a text, parts of several kinds, or anything else as a tree. */
import { html } from 'htm/preact';
import { isObject } from '../../app/spans.js';
import { JsonTree, LongText } from '../../components/json_tree.js';
import { isPlain, Markdown } from '../../components/markdown.js';
import { Reasoning } from './reasoning.js';

const JSON_MAX = 200_000;

/** @param {{content: unknown, isResult?: boolean}} props  `isResult`: of a tool, so its texts are no Markdown. */
export function Content({ content, isResult = false }) {
  if (content === null || content === undefined || content === '') return null;
  if (typeof content === 'string') return html`<${Text} text=${content} isResult=${isResult} />`;
  if (Array.isArray(content)) return content.map((part) => html`<${Part} part=${part} isResult=${isResult} />`);
  return html`<${JsonTree} value=${content} open=${3} />`;
}

/** Texts that are JSON objects or lists can be opened as a tree. @param {{text: string, isResult: boolean}} props */
function Text({ text, isResult }) {
  const tree = !isPlain.value && /^\s*[[{]/.test(text) && text.length < JSON_MAX ? parsed(text) : undefined;
  if (tree !== undefined) return html`<${JsonTree} value=${tree} open=${3} />`;
  return isResult ? html`<p class="text"><${LongText} text=${text} /></p>` : html`<${Markdown} text=${text} />`;
}

/** @param {{part: any, isResult?: boolean}} props */
export function Part({ part, isResult = false }) {
  if (typeof part === 'string') return html`<${Text} text=${part} isResult=${isResult} />`;
  if (!isObject(part)) return html`<${JsonTree} value=${part} />`;
  const text = part.text ?? part.content;
  if (part.type === 'reasoning' || part.type === 'thinking') return html`<${Reasoning} text=${text ?? part.thinking} />`;
  const url = part.image_url?.url ?? part.image_url ?? (part.type === 'image' ? part.url : undefined);
  if (typeof url === 'string') return html`<p class="text"><${Link} url=${url} /></p>`;
  if (typeof text === 'string') return html`<${Text} text=${text} isResult=${isResult} />`;
  return html`<${JsonTree} value=${part} open=${2} />`;
}

/** An image is a link: the page never loads anything from another host. @param {{url: string}} props */
function Link({ url }) {
  const label = url.startsWith('data:') ? `image in the message (${url.length.toLocaleString('en')} characters)` : url;
  return /^https?:\/\//.test(url) ? html`<a href=${url} target="_blank" rel="noreferrer noopener">${label}</a>` : html`<span class="soft">${label}</span>`;
}

/** JSON that a text holds; `undefined` if it holds none. @param {string} text */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
