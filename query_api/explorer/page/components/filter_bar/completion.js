/** What can follow the text of a condition: fields, attribute paths that occur, operators, and values that occur. */
import { post } from '../../app/api.js';
import { FIELD_VALUES, FIELDS, fullName, LIST_FIELDS, NUMBER_FIELDS, OPERATORS, PATH_FIELDS } from '../../app/filter.js';
import { timeRange } from '../time_range.js';

/** @typedef {{text: string, label: string, note: string}} Suggestion  `text` replaces what was typed. */

const SUGGESTIONS_MAX = 12;
const WAIT_MS = 120;

/** Fields whose values are not worth a list, or that the API does not count: times, ids, numbers, texts and lists. */
const WITHOUT_VALUES = new Set([
  ...NUMBER_FIELDS, ...LIST_FIELDS, 'content', 'trace_id', 'span_id', 'parent_id', 'start_time', 'end_time', 'created_at',
]);

/**
 * @param {string} text
 * @param {AbortSignal} abort
 * @returns {Promise<Suggestion[]>}
 */
export async function complete(text, abort) {
  const [, name = '', operator, value = ''] = /^\s*(\S*)(?:\s+(\S+)(?:\s+(.*))?)?/s.exec(text) ?? [];
  if (operator !== undefined && text.includes(`${operator} `)) return values(name, operator, value, abort);
  if (/\s$/.test(text) || (operator !== undefined && isField(name))) {
    return isField(name) ? starting(OPERATORS, operator ?? '').map((each) => suggestion(`${name} ${each} `, each, '')) : [];
  }
  return operator === undefined ? names(name, abort) : [];
}

/** @param {string} name */
function isField(name) {
  return FIELDS.includes(fullName(name)) || PATH_FIELDS.some((field) => name.startsWith(`${field}.`));
}

/**
 * @param {string} typed
 * @param {AbortSignal} abort
 */
async function names(typed, abort) {
  const fields = starting(FIELDS, typed).map((field) => {
    const isPath = PATH_FIELDS.includes(field);
    return suggestion(isPath ? `${field}.` : `${field} `, field, isPath ? 'then a path' : '');
  });
  if (typed.length < 2) return fields;
  const paths = await facets({ limit: 500 }, abort);
  const inner = typed.replace(/^attributes\.?/, '').toLowerCase();
  const fitting = paths.filter(({ path }) => path.toLowerCase().includes(inner));
  return [...fields, ...fitting.map(({ path, types, count }) => suggestion(
    `attributes.${path} `, `attributes.${path}`, `${types.join(', ')} · ${count}`,
  ))].slice(0, SUGGESTIONS_MAX);
}

/**
 * @param {string} name
 * @param {string} operator
 * @param {string} typed
 * @param {AbortSignal} abort
 */
async function values(name, operator, typed, abort) {
  if (operator === 'exists' || operator === 'not_exists' || WITHOUT_VALUES.has(fullName(name))) return [];
  const known = FIELD_VALUES[fullName(name)] ?? await valuesThatOccur(name, abort);
  const before = /^(.*,\s*)?/s.exec(typed)?.[0] ?? '';
  const last = typed.slice(before.length).toLowerCase();
  return known.filter((value) => value.toLowerCase().includes(last)).slice(0, SUGGESTIONS_MAX)
    .map((value) => suggestion(`${name} ${operator} ${before}${value}`, value, ''));
}

/**
 * @param {string} name
 * @param {AbortSignal} abort
 */
async function valuesThatOccur(name, abort) {
  const [field = '', ...path] = name.split('.');
  if (!isField(name) || (PATH_FIELDS.includes(field) && !path.join(''))) return [];
  const key = PATH_FIELDS.includes(field) ? { field, key: path.join('.') } : fullName(name);
  const found = await facets({ keys: [key], limit: 50 }, abort);
  return found.flatMap(({ values: counted }) => (counted ?? []).map((/** @type {{value: unknown}} */ { value }) => String(value)));
}

/**
 * @param {object} query
 * @param {AbortSignal} abort
 * @returns {Promise<any[]>}
 */
async function facets(query, abort) {
  await new Promise((resolve) => { setTimeout(resolve, WAIT_MS); });
  if (abort.aborted) return [];
  const { oldest, newest } = timeRange();
  const answer = await post('spans/facets/query', { windowing: { oldest, newest }, ...query }, abort);
  return answer.facets ?? [];
}

/**
 * @param {readonly string[]} all
 * @param {string} typed
 */
function starting(all, typed) {
  const lower = typed.toLowerCase();
  return all.filter((each) => each.toLowerCase().startsWith(lower)).slice(0, SUGGESTIONS_MAX);
}

/** @param {string} text @param {string} label @param {string} note @returns {Suggestion} */
function suggestion(text, label, note) {
  return { text, label, note };
}
