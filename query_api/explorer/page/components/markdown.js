/**
 * Markdown of messages as elements. Nothing in it runs or is loaded: HTML is text, an image is a link, a link leads to
 * http, https or mailto and shows its address. A button switches to the text as it was written, for the whole page.
 */
import { html } from 'htm/preact';
import { signal } from '@preact/signals';
import { useContext, useMemo, useState } from 'preact/hooks';
import { readMarkdown } from '../app/markdown.js';
import { CopyButton } from './copy.js';
import { IsWhole, LongText } from './json_tree.js';

/** @typedef {import('../app/markdown_inline.js').Inline} Inline */
/** @typedef {import('../app/markdown.js').Block} Block */

const ITEM = 'clearspan-plain-text';
const SHOWN_MAX = 8_000;

/** Longer texts are shown as they are. */
const READ_MAX = 200_000;
const ADDRESS_MAX = 80;

/** Whether texts are shown as they were written; this browser remembers it. */
export const isPlain = signal(stored() === 'true');

/** @param {{text: string}} props */
export function Markdown({ text }) {
  const [isWhole, setWhole] = useState(useContext(IsWhole));
  const isRead = !isPlain.value && text.length <= READ_MAX;
  const visible = isWhole || text.length <= SHOWN_MAX ? text : beginning(text);
  const blocks = useMemo(() => (isRead ? readMarkdown(visible) : []), [isRead, visible]);
  if (!isRead) return html`<p class="text"><${LongText} text=${text} /></p>`;
  return html`<div class="markdown" dir="auto">${blocks.map(blockOf)}
    ${visible !== text && html`<p>… <button class="quiet" onClick=${() => setWhole(true)}>Show all ${text.length.toLocaleString('en')} characters</button></p>`}</div>`;
}

/** A button that switches between Markdown and the text as it was written. */
export function PlainSwitch() {
  const toggle = () => {
    isPlain.value = !isPlain.value;
    try {
      localStorage.setItem(ITEM, String(isPlain.value));
    } catch { /* the choice lives until the page is closed */ }
  };
  return html`<button class="quiet" aria-pressed=${isPlain.value} onClick=${toggle}>${isPlain.value ? 'Show Markdown' : 'Show as written'}</button>`;
}

function stored() {
  try {
    return localStorage.getItem(ITEM);
  } catch {
    return null;
  }
}

/** @param {string} text */
function beginning(text) {
  const cut = text.lastIndexOf('\n', SHOWN_MAX);
  return text.slice(0, cut > SHOWN_MAX / 2 ? cut : SHOWN_MAX);
}

/** @param {Block} block  @returns {any} */
function blockOf(block) {
  switch (block.kind) {
    case 'heading': return html`<p class="heading level-${block.level}" role="heading" aria-level=${Math.min(6, block.level + 3)}>${inlineOf(block.children)}</p>`;
    case 'code': return html`<figure class="code"><figcaption>${block.language}<${CopyButton} text=${block.text} /></figcaption><pre><code>${block.text}</code></pre></figure>`;
    case 'quote': return html`<blockquote>${block.blocks.map(blockOf)}</blockquote>`;
    case 'rule': return html`<hr />`;
    case 'list': return listOf(block);
    case 'table': return tableOf(block);
    default: return html`<p>${inlineOf(block.children)}</p>`;
  }
}

/** @param {Extract<Block, {kind: 'list'}>} list */
function listOf({ start, items }) {
  const rows = items.map(({ blocks, isDone }) => html`<li class=${isDone === undefined ? '' : 'task'}>
    ${isDone !== undefined && html`<span class="check" role="img" aria-label=${isDone ? 'done' : 'not done'}>${isDone ? '☑' : '☐'}</span>`}${blocks.map(blockOf)}</li>`);
  return start === null ? html`<ul>${rows}</ul>` : html`<ol start=${start}>${rows}</ol>`;
}

/** @param {Extract<Block, {kind: 'table'}>} table */
function tableOf({ head, rows, aligns }) {
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Table"><table>
    <thead><tr>${head.map((cell, column) => html`<th scope="col" class=${aligns[column]}>${inlineOf(cell)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell, column) => html`<td class=${aligns[column]}>${inlineOf(cell)}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** @param {Inline[]} children  @returns {any} */
function inlineOf(children) {
  return children.map((child) => {
    if (typeof child === 'string') return child;
    switch (child.kind) {
      case 'code': return html`<code>${child.text}</code>`;
      case 'strong': return html`<strong>${inlineOf(child.children)}</strong>`;
      case 'del': return html`<del>${inlineOf(child.children)}</del>`;
      case 'link': return html`<${Link} href=${child.href}>${inlineOf(child.children)}</${Link}>`;
      default: return html`<em>${inlineOf(child.children)}</em>`;
    }
  });
}

/**
 * A link to another site, with its address after a text that says something else.
 * @param {{href: string, children: any}} props
 */
export function Link({ href, children }) {
  const text = Array.isArray(children) && children.length === 1 ? children[0] : children;
  const isAddress = text === href || `${text}/` === href;
  const address = href.replace(/^mailto:/, '');
  return html`<a href=${href} title=${href} target="_blank" rel="noreferrer noopener">${children}</a>${!isAddress && text !== address
    && html` <span class="address soft">(${address.length > ADDRESS_MAX ? `${address.slice(0, ADDRESS_MAX)}…` : address})</span>`}`;
}
