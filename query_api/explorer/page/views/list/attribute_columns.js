/** Columns of any attribute: `attributes.tenant`; of spans also of the resource and the scope. */
import { html } from 'htm/preact';
import { textOf } from '../../app/spans.js';

/** In a name, before the path. */
export const ATTRIBUTES = 'attributes.';
const OF_SPANS = /^(attributes|resource|scope)\.(.+)$/s;
const OF_TRACES = /^(attributes)\.(.+)$/s;

/** How many attributes the API shows of a trace. */
const PATHS_MAX = 20;

/** The attributes that summaries are asked for. @param {string[]} names  Of columns. */
export function attributePaths(names) {
  return names.flatMap((name) => (name.startsWith(ATTRIBUTES) ? [name.slice(ATTRIBUTES.length)] : [])).slice(0, PATHS_MAX);
}

/** @param {string[]} names  @param {boolean} isOfTraces  @returns {import('./columns.js').Column[]} */
export function attributeColumns(names, isOfTraces) {
  return names.flatMap((name) => {
    const [, field = '', path = ''] = (isOfTraces ? OF_TRACES : OF_SPANS).exec(name) ?? [];
    return field ? [columnOf(name, field, path, isOfTraces)] : [];
  });
}

/**
 * @param {string} name
 * @param {string} field
 * @param {string} path
 * @param {boolean} isOfTraces
 * @returns {import('./columns.js').Column}
 */
function columnOf(name, field, path, isOfTraces) {
  const valueOf = (/** @type {any} */ row) => (isOfTraces ? row.attributes?.[path] : valueAt(field === 'attributes' ? row.attributes : row[field]?.attributes, path));
  return {
    name, title: field === 'attributes' ? path : name, width: 'minmax(7rem, 1fr)',
    ...(field === 'attributes' ? { sort: name, sortNote: 'Order by it. Only numbers have an order: rows with another value are left out.' } : { sortNote: 'The API orders by attributes of spans alone.' }),
    cell: (row) => html`<bdi title=${textOf(valueOf(row))}>${textOf(valueOf(row))}</bdi>`,
    quick: (row) => {
      const value = valueOf(row);
      if (value === undefined || value === null || typeof value === 'object') return null;
      return { condition: { field, key: path, operator: 'is', value }, text: textOf(value), any: true, ...(isOfTraces && { others: [] }) };
    },
  };
}

/**
 * The value at a path. Names may contain dots: the longest one that is there leads on.
 * @param {any} value
 * @param {string} path
 * @returns {unknown}
 */
function valueAt(value, path) {
  if (value === null || typeof value !== 'object') return undefined;
  if (Object.hasOwn(value, path)) return value[path];
  for (let dot = path.lastIndexOf('.'); dot > 0; dot = path.lastIndexOf('.', dot - 1)) {
    const name = path.slice(0, dot);
    if (!Object.hasOwn(value, name)) continue;
    const below = valueAt(value[name], path.slice(dot + 1));
    if (below !== undefined) return below;
  }
  return undefined;
}
