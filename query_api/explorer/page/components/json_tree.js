/** JSON as a tree to open and close. Long texts and long lists show their beginning. Everything is text, never markup. */
import { html } from 'htm/preact';
import { createContext } from 'preact';
import { useContext, useState } from 'preact/hooks';
import { textOf } from '../app/spans.js';

const TEXT_MAX = 2_000;
const ITEMS_MAX = 100;

/** Whether texts and trees are whole and open at first, as in a file, which has no buttons. */
export const IsWhole = createContext(false);

/**
 * @param {{value: unknown, name?: string, depth?: number, open?: number, path?: string, action?: (path: string, value: unknown) => any}} props
 *   `open` levels are open at first. `action` adds something after a scalar, such as a menu.
 */
export function JsonTree({ value, name, depth = 0, open = 2, path = '', action }) {
  const isWhole = useContext(IsWhole);
  const [isOpen, setOpen] = useState(isWhole || depth < open);
  const [count, setCount] = useState(isWhole ? Infinity : ITEMS_MAX);
  const label = name === undefined ? null : html`<span class="json-name">${name}</span>`;
  if (value === null || typeof value !== 'object') {
    return html`<div class="json-line">${label} <${Scalar} value=${value} /> ${action?.(path, value)}</div>`;
  }
  const entries = Object.entries(value);
  const brackets = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (entries.length === 0) return html`<div class="json-line">${label} <span class="soft">${brackets}</span></div>`;
  return html`<div class="json-node">
    <button class="json-toggle" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <span class="arrow">${isOpen ? '▾' : '▸'}</span> ${label} <span class="soft">${brackets}</span>
    </button>
    ${isOpen && html`<div class="json-children">
      ${entries.slice(0, count).map(([key, child]) => html`<${JsonTree}
        key=${key} name=${key} value=${child} depth=${depth + 1} open=${open} path=${path ? `${path}.${key}` : key} action=${action} />`)}
      ${entries.length > count && html`<button class="quiet" onClick=${() => setCount(count * 10)}>
        Show more (${entries.length - count} left)</button>`}
    </div>`}
  </div>`;
}

/** @param {{value: unknown}} props */
function Scalar({ value }) {
  if (typeof value === 'string') return html`<${LongText} text=${value} class="json-text" />`;
  return html`<span class="json-${value === null ? 'null' : typeof value}">${String(value)}</span>`;
}

/**
 * A text that may be very long: its beginning first, the whole on request.
 * @param {{text: unknown, class?: string, max?: number}} props  Other values are shown as JSON.
 */
export function LongText({ text: value, class: className = '', max = TEXT_MAX }) {
  const [isWhole, setWhole] = useState(useContext(IsWhole));
  const text = textOf(value);
  if (text.length <= max || isWhole) return html`<span class="long-text ${className}" dir="auto">${text}</span>`;
  return html`<span class="long-text ${className}" dir="auto">${text.slice(0, max)}…
    <button class="quiet" onClick=${() => setWhole(true)}>Show all ${text.length.toLocaleString('en')} characters</button></span>`;
}
