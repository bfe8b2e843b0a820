/**
 * The filter of a view: the JSON that the API takes, and conditions as people write them. The API reads what is written
 * (`components/filter_bar/read.js`); here it is written back.
 *
 * `cost > 0.01 and service is shop` · `http.status >= 500` · `status_code in A, B` · `not (model exists or user = u-1)`
 */

/** @typedef {{field: string, key?: string, operator?: string, value?: unknown, options?: object}} Condition */
/** @typedef {{operator?: string, conditions: (Condition | Filter)[]}} Filter */

/** Fields that hold JSON, after whose name a path follows, and scores, after which a name follows. */
export const PATH_FIELDS = ['attributes', 'resource', 'scope', 'scores'];
export const LIST_FIELDS = ['links', 'references', 'events', 'hashes'];

export const FIELDS = [
  'span_name', 'operation', 'span_type', 'trace_type', 'span_kind', 'status_code', 'status_message', 'state', 'settled', 'service', 'model',
  'provider', 'session', 'user', 'duration', 'tokens', 'cost', 'trace_id', 'span_id', 'parent_id', 'start_time', 'end_time',
  'created_at', 'content',
  'session_id', 'user_id', 'agent_id', 'updated_at', 'deleted_at', 'created_by_id', 'updated_by_id', 'deleted_by_id',
  ...PATH_FIELDS, ...LIST_FIELDS,
];

/** Values of the fields that have a fixed set. */
export const FIELD_VALUES = /** @type {Record<string, string[]>} */ ({
  status_code: ['STATUS_CODE_UNSET', 'STATUS_CODE_OK', 'STATUS_CODE_ERROR'],
  span_kind: ['SERVER', 'CLIENT', 'INTERNAL', 'PRODUCER', 'CONSUMER', 'UNSPECIFIED'].map((kind) => `SPAN_KIND_${kind}`),
  state: ['running'],
  settled: ['complete', 'incomplete'],
  trace_type: ['invocation', 'annotation'],
  span_type: ['agent', 'chain', 'workflow', 'task', 'tool', 'embedding', 'query', 'llm', 'completion', 'chat', 'rerank'],
});

/** Other names for fields, as people type them. */
const FIELD_ALIASES = /** @type {Record<string, string>} */ ({ type: 'span_type', status: 'status_code', name: 'span_name', kind: 'span_kind', text: 'content' });

export const NUMBER_FIELDS = ['duration', 'tokens', 'cost'];

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
const TEXT_OPERATORS = new Set(['startswith', 'endswith', 'contains', 'matches', 'like']);
const TIME_FIELDS = new Set(['start_time', 'end_time', 'created_at', 'updated_at', 'deleted_at']);
export const OPERATORS = [
  '=', '!=', '>', '>=', '<', '<=', 'contains', 'startswith', 'endswith', '~', 'in', 'not_in', 'btwn', 'has', 'exists',
  'not_exists',
];

/** A text in quotes as one value. They begin a value, so that `don't` has none. */
const QUOTED = /(?<=^|[\s=<>~,[])("(?:\\.|[^"\\])*"|'[^']*')(?=$|[\s,\]])/g;

/** A phrase that all texts are searched for: a condition of its own. */
const PHRASE = /^"[^"\\]*"$/;
/** A phrase that would be read as an id. */
const ID_PHRASE = /^"\s*(https?:|[0-9a-fx:{}urnid-]*\s*"$)/i;

/** The name of an attribute or of a score that text can hold. */
export const KEY = /^[^\s()=!<>~≠≥≤"'“”„«»‘’‚,]+$/;

/** A path in the attributes whose field is left out: `http.status`. */
const BARE_PATH = /^[a-z_][\w-]*(\.[\w-]+)+$/i;

/** The last of the conditions that are being typed, and what is before it. @param {string} text @returns {[string, string]} */
export function lastCondition(text) {
  const before = /^.*(?<=^|[\s(])(?:(?:and|or|not)\s+|\()/is.exec(withoutQuoted(text))?.[0].length ?? 0;
  return [text.slice(0, before), text.slice(before)];
}

/** A text of the same length, in which nothing in quotes can be read. @param {string} text */
function withoutQuoted(text) {
  return text.replace(QUOTED, (quoted) => '"'.repeat(quoted.length));
}

/** The name of a field, also for another name that people type. @param {string} name */
function fullName(name) {
  return FIELD_ALIASES[name] ?? name;
}

/** The name of an operator in the API. @param {string} word */
export function operatorOf(word) {
  return SYMBOLS[word] ?? word;
}

/**
 * What a name means; a dotted name is a path in the attributes, unless it begins with a field that has paths itself.
 * @param {string} name
 * @returns {{field: string, key?: string} | null}
 */
export function fieldOf(name) {
  const full = fullName(name);
  if (FIELDS.includes(full)) return { field: full };
  const [field = '', ...path] = name.split('.');
  if (PATH_FIELDS.includes(field) && path.join('')) return { field, key: path.join('.') };
  return BARE_PATH.test(name) && !LIST_FIELDS.includes(field) ? { field: 'attributes', key: name } : null;
}

/** Whether a text is read as another value where a field can hold any JSON. @param {string} text */
function isJson(text) {
  try { JSON.parse(text); return true; } catch { return false; }
}

/**
 * The text of a condition or of a group, which the API reads as the same.
 * @param {Condition | Filter} member
 * @returns {string}
 */
export function conditionText(member) {
  if (!isText(member)) return JSON.stringify(member);
  if (!('field' in member)) {
    const texts = member.conditions.map((each) => ('field' in each || each.operator === 'not' ? conditionText(each) : `(${conditionText(each)})`));
    return member.operator === 'not' ? `not ${texts[0]}` : texts.join(` ${member.operator ?? 'and'} `);
  }
  const { field, key, operator = 'is', value = null } = member;
  if (field === 'content' && operator === 'contains' && PHRASE.test(String(value)) && !ID_PHRASE.test(String(value))) return String(value);
  const name = field === 'content' ? 'text' : key ? `${field}.${key}` : field;
  const symbol = Object.entries(SYMBOLS).find(([, named]) => named === operator)?.[0] ?? operator;
  if (WITHOUT_VALUE.has(operator)) return `${name} ${symbol}`;
  const values = Array.isArray(value) && LISTS.has(operator) ? value : [value];
  return `${name} ${symbol} ${values.map((one) => valueText(field, operator, one)).join(', ')}`;
}

/** A filter in words, for titles. @param {Filter} filter */
export function filterTitle({ operator = 'and', conditions }) {
  return operator === 'not' ? `not ${conditions.map(conditionText).join(' ')}` : conditions.map(conditionText).join(` ${operator} `);
}

/**
 * Whether text can say all of it: options, `nand` and `nor`, and values of another type than the field's are in JSON only.
 * @param {Condition | Filter} member
 * @returns {boolean}
 */
export function isText(member) {
  if (!('field' in member)) {
    const { operator = 'and', conditions } = member;
    const isNamed = operator === 'not' ? conditions.length === 1 : ['and', 'or'].includes(operator) && conditions.length > 1;
    return isNamed && conditions.every(isText);
  }
  const { field, key, operator = 'is', value = null, ...others } = member;
  if (Object.keys(others).length || !NAMES.has(operator) || (key !== undefined && !KEY.test(key))) return false;
  if (WITHOUT_VALUE.has(operator)) return value === null;
  if (LISTS.has(operator)) return Array.isArray(value) && value.length > 0 && value.every((one) => isValueOf(field, operator, one));
  return isValueOf(field, operator, value);
}

/** @param {string} field @param {string} operator @param {unknown} value */
function isValueOf(field, operator, value) {
  if (TEXT_OPERATORS.has(operator)) return typeof value === 'string' && value !== '';
  if ([...PATH_FIELDS, ...LIST_FIELDS].includes(field)) return true;
  if (value === null) return !LISTS.has(operator);
  if (NUMBER_FIELDS.includes(field)) return typeof value === 'number';
  return typeof value === 'string' || (TIME_FIELDS.has(field) && Number.isSafeInteger(value));
}

/**
 * A value as it is typed: in quotes where it would be read as another value, or as several.
 * @param {string} field
 * @param {string} operator
 * @param {unknown} value
 */
export function valueText(field, operator, value) {
  if (typeof value !== 'string') return JSON.stringify(value);
  const isPlain = field !== 'content' && !/["“”„«»‘]|(?:^|\s)['’‚]|'$|^[[=<>~≠≥≤]|[,()]|^\s|\s$|^$|(?<=^|\s)(and|or)(?=\s|$)|&&|\|\|/i.test(value) && !(/[\s;]/.test(value) && /[=<>~≠≥≤]/.test(value));
  const isText = TEXT_OPERATORS.has(operator) || (value !== 'null' && !([...PATH_FIELDS, ...LIST_FIELDS].includes(field) && isJson(value)));
  return isPlain && isText ? value : JSON.stringify(value);
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
 * Add a condition, or a group of them, that every span must fulfil.
 * @param {Filter} filter
 * @param {Condition | Filter} condition
 * @returns {Filter}
 */
export function withCondition(filter, condition) {
  if ((filter.operator ?? 'and') !== 'and') return { conditions: [filter, condition] };
  const text = JSON.stringify(condition);
  if (filter.conditions.some((existing) => JSON.stringify(existing) === text)) return filter;
  return { ...filter, conditions: [...filter.conditions, condition] };
}
