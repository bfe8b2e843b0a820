/** What surrounds every view: navigation, freshness, theme, the prompt for a key, and the list of keyboard shortcuts. */
import { html } from 'htm/preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { carriedTo, href, viewName } from '../app/address.js';
import { API, dataThrough, keys, needsKey, useKey } from '../app/api.js';
import { localTime } from '../app/format.js';
import { isDark, theme, toggleTheme } from '../app/theme.js';
import { ProjectMenu } from './project_menu.js';
import { ValueMenu } from './value_menu.js';

const VIEWS = [
  ['overview', 'Overview'], ['traces', 'Traces'], ['spans', 'Spans'], ['sessions', 'Sessions'], ['users', 'Users'], ['charts', 'Charts'], ['applications', 'Applications'],
  ['queries', 'Queries'], ['dead-letters', 'Dead letters'], ['status', 'Status'],
];

/** @param {{children: any}} props */
export function Shell({ children }) {
  const [isHelp, setHelp] = useState(false);
  useShortcuts(() => setHelp(true));
  const current = viewName.value;
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => { // where the bar is narrow, the current view may be out of sight
    const link = /** @type {HTMLElement | null | undefined} */ (nav.current?.querySelector('[aria-current]'));
    if (nav.current && link) nav.current.scrollLeft = link.offsetLeft - (nav.current.offsetLeft + (nav.current.clientWidth - link.offsetWidth) / 2);
  }, [current]);
  return html`
    <a class="skip" href="#view">Skip to the content</a>
    <header class="top">
      <a class="brand" href=${href(['overview'])}><img src="files/icon.svg" alt="" width="18" height="18" /> Clearspan</a>
      <nav aria-label="Views" ref=${nav}>
        ${VIEWS.map(([name = '', title]) => html`<a href=${href([name], carriedTo(name))} aria-current=${name === current ? 'page' : null}>${title}</a>`)}
      </nav>
      <div class="top-right">
        <${Freshness} />
        <${ProjectMenu} />
        <a class="quiet" href=${new URL('docs', API).href} target="_blank" rel="noreferrer">API</a>
        <button class="quiet" title="Keyboard and colors (?)" aria-label="Keyboard and colors" onClick=${() => setHelp(true)}>?</button>
        <button class="quiet" title="Light or dark" aria-label="Light or dark" onClick=${toggleTheme}>${theme.value && isDark() ? '☀' : '☾'}</button>
      </div>
    </header>
    <main id="view" tabindex="-1">${children}</main>
    ${needsKey.value && html`<${KeyPrompt} scope=${needsKey.value} />`}
    <${ValueMenu} />
    ${isHelp && html`<${Help} close=${() => setHelp(false)} />`}`;
}

function Freshness() {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), 5_000);
    return () => clearInterval(timer);
  }, []);
  if (!dataThrough.value) return null;
  return html`<span class="freshness" title="Everything that Kafka had accepted by ${dataThrough.value} is in the last answer.">
    Data through ${localTime(dataThrough.value)}</span>`;
}

/** @param {{scope: 'project' | 'admin'}} props */
function KeyPrompt({ scope }) {
  const [key, setKey] = useState('');
  const title = scope === 'admin' ? 'This page needs the administrator’s key' : 'This installation needs an API key';
  const source = scope === 'admin'
    ? html`The administrator’s key is the value of <code>CLEARSPAN_ADMIN_KEY</code>.`
    : html`The command <code>clearspan keys create NAME</code> makes a key and shows it once.`;
  return html`<${Dialog} title=${title} close=${() => { needsKey.value = null; }}>
    <form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); if (key.trim()) useKey(scope, key.trim()); }}>
      <label>Key <input type="password" name="key" autocomplete="off" value=${key}
        onInput=${(/** @type {any} */ event) => setKey(event.target.value)} /></label>
      ${keys.peek()[scope] && html`<p class="error-text" role="alert">The API refused the key that was entered. It is wrong, expired or revoked.</p>`}
      <p class="soft">${source} This page keeps the key until you close the browser tab.</p>
      <button class="primary">Use this key</button>
    </form>
  </${Dialog}>`;
}

const SHORTCUTS = [
  ['/', 'Go to the filter, or to the search in a trace'], ['j  k  ↓  ↑', 'Next or previous row'], ['Enter', 'Open the row'], ['Tab', 'Filter by a value of the row (⋯)'], ['←  →', 'Close or open a branch of a trace'],
  ['e  E', 'Next or previous failed span of a trace'], ['Esc', 'Close a panel'], ['Ctrl Enter', 'Send the form whose text you write'], ['?', 'Show this list'],
];

/** What the waterfall of a trace shows without words: a class of a mark, and its meaning. */
const LEGEND = [
  ['wf-dot type-agent', 'An agent or a workflow'], ['wf-dot type-chat', 'A model call'], ['wf-dot type-tool', 'A tool'],
  ['wf-dot type-embedding', 'An embedding, a retrieval or a reranking'], ['wf-dot', 'Any other span'], ['wf-dot wf-failed', 'The bar of a span that failed'],
  ['wf-dot legend-critical', 'A bold name and a dark line below the bar: the span is on the critical path. Making another span faster does not make the trace faster.'],
];

/** @param {{close: () => void}} props */
function Help({ close }) {
  return html`<${Dialog} title="Keyboard and colors" close=${close}>
    <dl class="shortcuts">${SHORTCUTS.map(([key, meaning]) => html`<dt><kbd>${key}</kbd></dt><dd>${meaning}</dd>`)}</dl>
    <h3>Colors of a trace</h3>
    <dl class="shortcuts legend">${LEGEND.map(([mark, meaning]) => html`<dt><span class=${mark}></span></dt><dd>${meaning}</dd>`)}</dl>
  </${Dialog}>`;
}

/** @param {{title: string, close: () => void, children: any}} props */
export function Dialog({ title, close, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    element.current?.showModal();
    const field = element.current?.querySelector('input');
    if (field) field.focus();
  }, []);
  return html`<dialog ref=${element} onClose=${close} aria-label=${title}>
    <div class="dialog-head"><h2>${title}</h2><button class="quiet" aria-label="Close" onClick=${close}>×</button></div>
    ${children}
  </dialog>`;
}

/** @param {() => void} showHelp */
function useShortcuts(showHelp) {
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const onKey = (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && event.target instanceof HTMLTextAreaElement) send(event.target.form);
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === '?') showHelp();
      if (event.key === '/') {
        const field = document.querySelector('[data-focus="filter"]');
        if (field instanceof HTMLElement) {
          event.preventDefault();
          field.focus();
        }
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

/** Press the button of a form, which does nothing while it is disabled. @param {HTMLFormElement | null} form */
function send(form) {
  const button = form?.querySelector('button.primary');
  if (button instanceof HTMLButtonElement) button.click();
}

/** @param {EventTarget | null} target */
export function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}
