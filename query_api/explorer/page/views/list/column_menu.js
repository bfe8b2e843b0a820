/** The menu of columns: which are shown, in which order, and any attribute as a further one. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { post } from '../../app/api.js';
import { PATH_FIELDS } from '../../app/filter.js';
import { useLoaded } from '../../app/loading.js';
import { Menu } from '../../components/menu.js';
import { timeRange } from '../../components/time_range.js';
import { ATTRIBUTES } from './attribute_columns.js';

const PATHS_MAX = 300;

/** @typedef {import('./columns.js').Column} Column */

/**
 * @param {{columns: Column[], names: string[], change: (names: string[] | null) => void, filter: object}} props
 *   `columns` are all columns of the list, and `names` those that it shows, in their order.
 */
export function ColumnMenu({ columns, names, change, filter }) {
  return html`<${Menu} label="Columns" align="right" class="column-menu">
    <${Choices} columns=${columns} names=${names} change=${change} filter=${filter} />
  </${Menu}>`;
}

/** @param {{columns: Column[], names: string[], change: (names: string[] | null) => void, filter: object}} props */
function Choices({ columns, names, change, filter }) {
  const optional = columns.filter(({ always }) => !always);
  const shown = names.flatMap((name) => optional.filter((column) => column.name === name));
  const others = optional.filter(({ name }) => !names.includes(name));
  /** @param {number} place @param {number} step */
  const move = (place, step) => {
    const order = shown.map(({ name }) => name);
    order.splice(place + step, 0, ...order.splice(place, 1));
    change(order);
  };
  return html`
    ${shown.map(({ name, title }, place) => html`<div class="item check" key=${name}>
      <label><input type="checkbox" checked onChange=${() => change(names.filter((each) => each !== name))} /> <bdi>${title}</bdi></label>
      <button class="quiet" aria-label="Move ${title} up" title="Further left" disabled=${place === 0} onClick=${() => move(place, -1)}>↑</button>
      <button class="quiet" aria-label="Move ${title} down" title="Further right" disabled=${place === shown.length - 1} onClick=${() => move(place, 1)}>↓</button>
    </div>`)}
    ${others.map(({ name, title }) => html`<div class="item check" key=${name}>
      <label><input type="checkbox" checked=${false} onChange=${() => change([...names, name])} /> <bdi>${title}</bdi></label></div>`)}
    <${AddAttribute} filter=${filter} add=${(/** @type {string} */ name) => change([...names.filter((each) => each !== name), name])} />
    <p class="soft menu-note">Click a title to sort; click again to reverse. Time, duration, tokens, cost, scores and attributes that are numbers sort the list; texts do not. A score that no row here has is typed as scores.NAME.</p>
    <button class="item" onClick=${() => change(null)}>Usual columns</button>`;
}

/** @param {{filter: object, add: (name: string) => void}} props */
function AddAttribute({ filter, add }) {
  const [text, setText] = useState('');
  const { oldest, newest } = timeRange();
  const loaded = useLoaded((abort) => post('spans/facets/query', { filtering: filter, windowing: { oldest, newest }, limit: PATHS_MAX }, abort), [JSON.stringify(filter), oldest, newest]);
  const paths = (loaded.data?.facets ?? []).map((/** @type {{path: string}} */ { path }) => path);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const path = text.trim();
    if (!path) return;
    const hasField = PATH_FIELDS.some((field) => path.startsWith(`${field}.`));
    add(hasField ? path : ATTRIBUTES + path);
    setText('');
  };
  return html`<form class="add-column" onSubmit=${submit}>
    <input list="attribute-paths" aria-label="An attribute as a column" placeholder="any attribute, such as ${paths[0] ?? 'http.route'}" maxlength="250"
      autocomplete="off" spellcheck="false" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
    <datalist id="attribute-paths">${paths.map((/** @type {string} */ path) => html`<option value=${path}></option>`)}</datalist>
    <button>Add</button>
  </form>`;
}
