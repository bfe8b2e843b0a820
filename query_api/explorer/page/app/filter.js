/**
 * The filter of a view: conditions as people type them, and the JSON that the API takes.
 *
 * `cost > 0.01` · `service is shop` · `attributes.http.status >= 500` · `status_code in A, B` · `model exists` · `two words`
 */

/** @typedef {{field: string, key?: string, operator?: string, value?: unknown, options?: object}} Condition */
/** @typedef {{operator?: string, conditions: (Condition | Filter)[]}} Filter */

/** Fields whose value is in JSON: a path follows the name. */
export const PATH_FIELDS = ['attributes', 'resource', 'scope'];
export const LIST_FIELDS = ['links', 'references', 'events', 'hashes'];

export const FIELDS = [
  'span_name', 'span_type', 'trace_type', 'span_kind', 'status_code', 'status_message', 'service', 'model', 'provider',
  'duration', 'tokens', 'cost', 'trace_id', 'span_id', 'parent_id', 'start_time', 'end_time', 'created_at', 'content',
  ...PATH_FIELDS, ...LIST_FIELDS,
];

/** Values of the fields that have a fixed set. */
export const FIELD_VALUES = /** @type {Record<string, string[]>} */ ({
  status_code: ['STATUS_CODE_UNSET', 'STATUS_CODE_OK', 'STATUS_CODE_ERROR'],
  span_kind: ['SERVER', 'CLIENT', 'INTERNAL', 'PRODUCER', 'CONSUMER', 'UNSPECIFIED'].map((kind) => `SPAN_KIND_${kind}`),
  trace_type: ['invocation', 'annotation'],
  span_type: ['agent', 'chain', 'workflow', 'task', 'tool', 'embedding', 'query', 'llm', 'completion', 'chat', 'rerank'],
});

/** Other names for fields, and for values of them, as people type them. */
const FIELD_ALIASES = /** @type {Record<string, string>} */ ({ type: 'span_type', status: 'status_code', name: 'span_name', kind: 'span_kind' });
const VALUE_ALIASES = /** @type {Record<string, Record<string, string>>} */ ({
  status_code: { error: 'STATUS_CODE_ERROR', failed: 'STATUS_CODE_ERROR', ok: 'STATUS_CODE_OK', unset: 'STATUS_CODE_UNSET' },
});

/** Fields that are numbers, and what one of each unit is. */
const UNITS = /** @type {Record<string, Record<string, number>>} */ ({
  duration: { '': 1, ms: 1, s: 1000, sec: 1000, min: 60_000, h: 3_600_000 },
  cost: { '': 1, $: 1 },
  tokens: { '': 1, k: 1000 },
});
export const NUMBER_FIELDS = Object.keys(UNITS);

/** How an operator is typed, and its name in the API. */
const SYMBOLS = /** @type {Record<string, string>} */ ({
  '=': 'is', '!=': 'is_not', '>': 'gt', '>=': 'gte', '<': 'lt', '<=': 'lte', '~': 'matches',
});
const NAMES = new Set([
  'is', 'is_not', 'eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'btwn', 'startswith', 'endswith', 'contains', 'matches',
  'like', 'in', 'not_in', 'has', 'has_not', 'exists', 'not_exists',
]);
const LISTS = new Set(['in', 'not_in', 'btwn']);
const WITHOUT_VALUE = new Set(['exists', 'not_exists']);
export const OPERATORS = [
  '=', '!=', '>', '>=', '<', '<=', 'contains', 'startswith', 'endswith', '~', 'in', 'not_in', 'btwn', 'has', 'exists',
  'not_exists',
];

/**
 * Read what a person typed. Text that does not begin with a field searches the words of all contents.
 * @param {string} text
 * @returns {Condition}
 * @throws {Error} in words, if the text begins with a field and is no condition
 */
export function parseCondition(text) {
  const trimmed = text.trim();
  const words = /^text contains (".*")$/s.exec(trimmed)?.[1];
  if (words) return { field: 'content', operator: 'contains', value: JSON.parse(words) };
  const match = /^(\S+?)\s*(!=|>=|<=|=|>|<|~)\s*(.*)$/s.exec(trimmed) ?? /^(\S+)\s+(\w+)\b\s*(.*)$/s.exec(trimmed);
  const [name, operator] = [match?.[1] ?? '', SYMBOLS[match?.[2] ?? ''] ?? (match?.[2] ?? '')];
  if (!match || !NAMES.has(operator) || !fieldOf(name)) return { field: 'content', operator: 'contains', value: trimmed };
  const condition = { ...fieldOf(name), field: fieldOf(name)?.field ?? '', operator };
  if (PATH_FIELDS.includes(condition.field) && !condition.key) {
    throw new Error(`${condition.field} needs a path: ${condition.field}.http.status = 500`);
  }
  if (WITHOUT_VALUE.has(operator)) return condition;
  const typed = (match[3] ?? '').trim();
  if (typed === '') throw new Error(`${name} ${match[2]} needs a value.`);
  const value = LISTS.has(operator) ? listOf(typed) : valueOf(typed);
  return { ...condition, value: Array.isArray(value) ? value.map((one) => meant(condition.field, one)) : meant(condition.field, value) };
}

/** The name of a field, also for another name that people type. @param {string} name */
export function fullName(name) {
  return FIELD_ALIASES[name] ?? name;
}

/** @param {string} name  @returns {{field: string, key?: string} | null} */
function fieldOf(name) {
  const field = fullName(name);
  if (FIELDS.includes(field)) return { field };
  return pathOf(name);
}

/** @param {string} name */
function pathOf(name) {
  const [field = '', ...path] = name.split('.');
  return PATH_FIELDS.includes(field) && path.length ? { field, key: path.join('.') } : null;
}

/**
 * What a typed value of a field means: `error` is a status, `1.5s` a duration in milliseconds.
 * @param {string} field
 * @param {unknown} value
 */
function meant(field, value) {
  const alias = VALUE_ALIASES[field]?.[String(value).toLowerCase()];
  if (alias) return alias;
  const units = UNITS[field];
  if (!units || typeof value === 'number') return value;
  const [, dollar, number, unit = ''] = /^(\$?)\s*(-?[\d.]+)\s*([a-z]*)$/i.exec(String(value)) ?? [];
  const factor = units[unit || dollar || ''];
  if (number === undefined || factor === undefined || Number.isNaN(Number(number))) {
    throw new Error(`${field} needs a number${field === 'duration' ? ' of milliseconds, or a time such as 1.5s' : ''}; got ${value}.`);
  }
  return Number((Number(number) * factor).toPrecision(12));
}

/** @param {string} text */
function valueOf(text) {
  if (/^".*"$/s.test(text)) {
    try { return JSON.parse(text); } catch { return text; }
  }
  if (text === 'true' || text === 'false' || text === 'null') return JSON.parse(text);
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) && Number.isFinite(Number(text)) ? numberOf(text) : text;
}

/** A number that JavaScript would round stays a text; the API compares it exactly. @param {string} text */
function numberOf(text) {
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text)) ? text : Number(text);
}

/** @param {string} text */
function listOf(text) {
  if (text.startsWith('[')) return JSON.parse(text);
  return text.split(',').map((part) => valueOf(part.trim())).filter((part) => part !== '');
}

/**
 * The text of a condition: what `parseCondition` reads.
 * @param {Condition | Filter} condition
 */
export function conditionText(condition) {
  if (!('field' in condition)) return JSON.stringify(condition);
  const name = condition.key ? `${condition.field}.${condition.key}` : condition.field;
  const operator = condition.operator ?? 'is';
  if (name === 'content' && operator === 'contains') return `text contains ${JSON.stringify(condition.value)}`;
  const symbol = Object.entries(SYMBOLS).find(([, named]) => named === operator)?.[0] ?? operator;
  if (WITHOUT_VALUE.has(operator)) return `${name} ${symbol}`;
  const { value } = condition;
  const text = Array.isArray(value) ? value.map(valueText).join(', ') : valueText(value);
  return `${name} ${symbol} ${text}`;
}

/** @param {unknown} value */
function valueText(value) {
  if (typeof value !== 'string') return JSON.stringify(value);
  return valueOf(value) === value && !value.includes(',') ? value : JSON.stringify(value);
}

/**
 * Read the filter of an address.
 * @param {string | null} text
 * @returns {Filter}
 */
export function readFilter(text) {
  if (!text) return { conditions: [] };
  try {
    const read = JSON.parse(text);
    if (read && Array.isArray(read.conditions)) return read;
  } catch { /* an address that was cut */ }
  return { conditions: [] };
}

/** @param {Filter} filter */
export function writeFilter(filter) {
  return filter.conditions.length ? JSON.stringify(filter) : null;
}

/**
 * Add a condition that every span must fulfil.
 * @param {Filter} filter
 * @param {Condition} condition
 * @returns {Filter}
 */
export function withCondition(filter, condition) {
  if ((filter.operator ?? 'and') !== 'and') return { conditions: [filter, condition] };
  const text = JSON.stringify(condition);
  if (filter.conditions.some((existing) => JSON.stringify(existing) === text)) return filter;
  return { ...filter, conditions: [...filter.conditions, condition] };
}
