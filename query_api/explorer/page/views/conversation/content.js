/** The content of a message: a text, parts of several kinds, or anything else as a tree. */
import { html } from 'htm/preact';
import { mediaOf } from '../../app/media.js';
import { isObject, textOf } from '../../app/spans.js';
import { JsonTree, LongText } from '../../components/json_tree.js';
import { isPlain, Markdown } from '../../components/markdown.js';
import { MediaView } from './media_view.js';
import { Reasoning } from './reasoning.js';

const JSON_MAX = 200_000;
const PARTS_MAX = 200;
const THOUGHTS = new Set(['reasoning', 'thinking', 'redacted_thinking']);

/** @param {{content: unknown, isResult?: boolean}} props  `isResult`: of a tool, so its texts are no Markdown. */
export function Content({ content, isResult = false }) {
  if (content === null || content === undefined || content === '') return null;
  if (typeof content === 'string') return html`<${Text} text=${content} isResult=${isResult} />`;
  if (Array.isArray(content)) return html`<${Parts} parts=${content} isResult=${isResult} />`;
  return html`<${JsonTree} value=${content} open=${3} />`;
}

/** @param {{parts: unknown, isResult?: boolean}} props  What is no list is nothing. */
export function Parts({ parts, isResult = false }) {
  if (!Array.isArray(parts)) return null;
  return html`${parts.slice(0, PARTS_MAX).map((part) => html`<${Part} part=${part} isResult=${isResult} />`)}
    ${parts.length > PARTS_MAX && html`<${JsonTree} value=${parts.slice(PARTS_MAX)} name="further parts" open=${0} />`}`;
}

/** Texts that are JSON objects or lists can be opened as a tree. @param {{text: string, isResult: boolean}} props */
function Text({ text, isResult }) {
  const tree = !isPlain.value && /^\s*[[{]/.test(text) && text.length < JSON_MAX ? parsed(text) : undefined;
  if (tree !== undefined) return html`<${JsonTree} value=${tree} open=${3} />`;
  return isResult ? html`<p class="text"><${LongText} text=${text} /></p>` : html`<${Markdown} text=${text} />`;
}

/** @param {{part: any, isResult: boolean}} props */
function Part({ part, isResult }) {
  if (typeof part === 'string') return html`<${Text} text=${part} isResult=${isResult} />`;
  if (!isObject(part)) return html`<${JsonTree} value=${part} />`;
  const text = part.text ?? part.content;
  if (THOUGHTS.has(part.type)) return html`<${Reasoning} text=${text ?? part.thinking} />`;
  const media = mediaOf(part);
  if (media) return html`<${MediaView} media=${media} />${transcriptOf(part) && html`<${Text} text=${transcriptOf(part)} isResult=${isResult} />`}`;
  if (typeof text === 'string') return html`<${Text} text=${text} isResult=${isResult} />`;
  return html`<${JsonTree} value=${part} open=${2} />`;
}

/** What is said in a sound. @param {Record<string, any>} part */
function transcriptOf(part) {
  return textOf(part.transcript ?? part.audio?.transcript ?? part.input_audio?.transcript);
}

/** JSON that a text holds; `undefined` if it holds none. @param {string} text */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
