/** Which columns a list shows. The choice is kept in this browser. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { Menu } from '../../components/menu.js';
import { SHOWN_FIRST } from './columns.js';

/**
 * @param {string} list
 * @returns {[Set<string>, (name: string) => void]}  The names of the columns that are shown, and what changes that.
 */
export function useColumns(list) {
  const item = `clearspan-columns-${list}`;
  const [shown, setShown] = useState(() => new Set(read(item) ?? SHOWN_FIRST[list]));
  /** @param {string} name */
  const toggle = (name) => {
    const changed = new Set(shown);
    if (!changed.delete(name)) changed.add(name);
    setShown(changed);
    try {
      localStorage.setItem(item, JSON.stringify([...changed]));
    } catch { /* the choice lives until the page is closed */ }
  };
  return [shown, toggle];
}

/** @param {string} item  @returns {string[] | null} */
function read(item) {
  try {
    const names = JSON.parse(localStorage.getItem(item) ?? 'null');
    return Array.isArray(names) ? names : null;
  } catch {
    return null;
  }
}

/** @param {{columns: import('./columns.js').Column[], shown: Set<string>, toggle: (name: string) => void}} props */
export function ColumnMenu({ columns, shown, toggle }) {
  return html`<${Menu} label="Columns" align="right">
    ${columns.filter(({ always }) => !always).map(({ name, title }) => html`<label class="item check">
      <input type="checkbox" checked=${shown.has(name)} onChange=${() => toggle(name)} /> ${title}</label>`)}
  </${Menu}>`;
}
