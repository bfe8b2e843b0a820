/**
 * The filter of a view: conditions as people type them, and the JSON that the API takes. The words are those of
 * `clearspan query`; a value may also have spaces without quotes, and text that holds no condition searches for words.
 *
 * `cost > 0.01 and service is shop` · `http.status >= 500` · `status_code in A, B` · `model exists` · `two words`
 */

/** @typedef {{field: string, key?: string, operator?: string, value?: unknown, options?: object}} Condition */
/** @typedef {{operator?: string, conditions: (Condition | Filter)[]}} Filter */

/** Fields whose value is in JSON: a path follows the name. */
export const PATH_FIELDS = ['attributes', 'resource', 'scope'];
export const LIST_FIELDS = ['links', 'references', 'events', 'hashes'];

export const FIELDS = [
  'span_name', 'operation', 'span_type', 'trace_type', 'span_kind', 'status_code', 'status_message', 'service', 'model',
  'provider', 'session', 'user', 'duration', 'tokens', 'cost', 'trace_id', 'span_id', 'parent_id', 'start_time', 'end_time',
  'created_at', 'content',
  'session_id', 'user_id', 'agent_id', 'updated_at', 'deleted_at', 'created_by_id', 'updated_by_id', 'deleted_by_id',
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
const FIELD_ALIASES = /** @type {Record<string, string>} */ ({ type: 'span_type', status: 'status_code', name: 'span_name', kind: 'span_kind', text: 'content' });
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
const TEXT_OPERATORS = new Set(['startswith', 'endswith', 'contains', 'matches', 'like']);
const TIME_FIELDS = new Set(['start_time', 'end_time', 'created_at', 'updated_at', 'deleted_at']);
export const OPERATORS = [
  '=', '!=', '>', '>=', '<', '<=', 'contains', 'startswith', 'endswith', '~', 'in', 'not_in', 'btwn', 'has', 'exists',
  'not_exists',
];

/** A text in quotes as one value. They begin a value, so that `don't` has none. */
const QUOTED = /(?<=^|[\s=<>~,[])("(?:\\.|[^"\\])*"|'[^']*')(?=$|[\s,\]])/g;

/** A path in the attributes whose field is left out: `http.status`. */
const BARE_PATH = /^[a-z_][\w-]*(\.[\w-]+)+$/i;

/** @typedef {{conditions: Condition[], isSearch: boolean}} Typed  `isSearch` if the text holds no condition: its words are searched for. */

/**
 * Read what a person typed: conditions with `and` between them, or words to search for in all texts.
 * @param {string} text
 * @returns {Typed}
 * @throws {Error} in words, if one part is a condition and another is wrong or none
 */
export function parseConditions(text) {
  const parts = partsOf(text);
  const found = parts.map(parseCondition);
  const conditions = found.filter((condition) => condition !== null);
  if (conditions.length === 0) {
    return { conditions: [{ field: 'content', operator: 'contains', value: text.trim() }], isSearch: true };
  }
  if (conditions.length < parts.length) throw new Error(wrongPart(parts[found.indexOf(null)] ?? ''));
  return { conditions, isSearch: false };
}

/** The texts between words `and` that are not in quotes. An `and` at the beginning joins what was typed before. @param {string} text */
function partsOf(text) {
  const hidden = withoutQuoted(text);
  const parts = [];
  let from = 0;
  for (const { 0: joint, index } of hidden.matchAll(/(?<=^|\s)and(?=\s|$)/gi)) {
    parts.push(text.slice(from, index).trim());
    from = index + joint.length;
  }
  parts.push(text.slice(from).trim());
  return parts[0] === '' && parts.length > 1 ? parts.slice(1) : parts;
}

/** The last of the conditions that are being typed, and what is before it. @param {string} text @returns {[string, string]} */
export function lastCondition(text) {
  const before = /^.*(?<=^|\s)and\s+/is.exec(withoutQuoted(text))?.[0].length ?? 0;
  return [text.slice(0, before), text.slice(before)];
}

/** A text of the same length, in which nothing in quotes can be read. @param {string} text */
function withoutQuoted(text) {
  return text.replace(QUOTED, (quoted) => '"'.repeat(quoted.length));
}

/** @param {string} part */
function wrongPart(part) {
  if (part === '') return 'A condition must follow the last “and”.';
  return `“${part}” is not a condition. Put a value that contains “and” in quotes; search for words with: text contains ${JSON.stringify(part)}`;
}

/**
 * @param {string} text
 * @returns {Condition | null}  `null` if the text does not begin with a field and an operator.
 * @throws {Error} in words, if it does and is no condition
 */
function parseCondition(text) {
  const match = /^(\S+?)\s*(!=|>=|<=|=|>|<|~)\s*(.*)$/s.exec(text) ?? /^(\S+)\s+(\w+)(?=\s|$)\s*(.*)$/s.exec(text);
  const [name = '', word = '', typed = ''] = match?.slice(1) ?? [];
  const operator = operatorOf(word);
  const field = fieldOf(name);
  if (!NAMES.has(operator) || !field) return null;
  if (PATH_FIELDS.includes(field.field) && !field.key) {
    throw new Error(`${field.field} needs a path: ${field.field}.http.status = 500`);
  }
  if (WITHOUT_VALUE.has(operator)) {
    if (typed) throw new Error(`“and” must follow “${name} ${word}”; got “${typed}”.`);
    return { ...field, operator };
  }
  if (typed === '') throw new Error(`${name} ${word} needs a value.`);
  refuseOr(typed);
  return { ...field, operator, value: LISTS.has(operator) ? listOf(field.field, typed) : valueOf(field.field, operator, typed) };
}

/** A value that holds another condition would find nothing. @param {string} typed */
function refuseOr(typed) {
  const or = /\sor\s+/i.exec(withoutQuoted(typed));
  if (or && parseCondition(typed.slice(or.index + or[0].length))) {
    throw new Error('Conditions are joined by “and” only. Write “or” in the JSON of the filter, or put the value in quotes.');
  }
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
 * What a name means; a dotted name that begins with no field is a path in the attributes.
 * @param {string} name
 * @returns {{field: string, key?: string} | null}
 */
export function fieldOf(name) {
  const full = fullName(name);
  if (FIELDS.includes(full)) return { field: full };
  const [field = '', ...path] = name.split('.');
  if (PATH_FIELDS.includes(field) && path.join('')) return { field, key: path.join('.') };
  return BARE_PATH.test(name) && !FIELDS.includes(field) ? { field: 'attributes', key: name } : null;
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
  if (!units || typeof value === 'number' || value === null) return value;
  const [, dollar, number, unit = ''] = /^(\$?)\s*(-?[\d.]+)\s*([a-z]*)$/i.exec(String(value)) ?? [];
  const factor = units[unit || dollar || ''];
  if (number === undefined || factor === undefined || Number.isNaN(Number(number))) {
    throw new Error(`${field} needs a number${field === 'duration' ? ' of milliseconds, or a time such as 1.5s' : ''}; got ${value}.`);
  }
  return Number((Number(number) * factor).toPrecision(12));
}

/**
 * @param {string} field
 * @param {string} operator
 * @param {string} typed
 */
function valueOf(field, operator, typed) {
  const [quote, text] = unquoted(typed);
  if (TEXT_OPERATORS.has(operator)) return text;
  return meant(field, quote === '"' ? text : typedAs(field, text));
}

/** A text without its quotes, and which these were. @param {string} typed @returns {[string, string]} */
function unquoted(typed) {
  if (/^'[^']*'$/s.test(typed)) return ["'", typed.slice(1, -1)];
  if (!/^"(?:\\.|[^"\\])*"$/s.test(typed)) return ['', typed];
  try { return ['"', JSON.parse(typed)]; } catch { return ['"', typed.slice(1, -1)]; }
}

/** Numbers and other JSON are values only where a field can hold them. @param {string} field @param {string} text @returns {unknown} */
function typedAs(field, text) {
  if (text === 'null') return null;
  if (TIME_FIELDS.has(field)) return /^\d+$/.test(text) ? numberOf(text) : text;
  if (![...PATH_FIELDS, ...LIST_FIELDS, ...NUMBER_FIELDS].includes(field)) return text;
  if (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return Number.isFinite(Number(text)) ? numberOf(text) : text;
  try { return JSON.parse(text); } catch { return text; }
}

/** A number that JavaScript would round stays a text; the API compares it exactly. @param {string} text */
function numberOf(text) {
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text)) ? text : Number(text);
}

/** @param {string} field @param {string} typed */
function listOf(field, typed) {
  const text = typed.startsWith("'[") ? unquoted(typed)[1] : typed;
  if (!text.startsWith('[')) return splitAtCommas(text).map((part) => valueOf(field, 'is', part));
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${text} begins like a list of JSON, but is none.`);
  }
}

/** @param {string} text */
function splitAtCommas(text) {
  const hidden = withoutQuoted(text);
  const parts = [];
  let from = 0;
  for (const part of hidden.split(',')) {
    parts.push(text.slice(from, from + part.length).trim());
    from += part.length + 1;
  }
  return parts.filter((part) => part !== '');
}

/**
 * The text of a condition: what `parseConditions` reads.
 * @param {Condition | Filter} condition
 */
export function conditionText(condition) {
  if (!('field' in condition)) return JSON.stringify(condition);
  const { field, key, operator = 'is', value } = condition;
  const name = field === 'content' ? 'text' : key ? `${field}.${key}` : field;
  const symbol = Object.entries(SYMBOLS).find(([, named]) => named === operator)?.[0] ?? operator;
  if (WITHOUT_VALUE.has(operator)) return `${name} ${symbol}`;
  const values = Array.isArray(value) && LISTS.has(operator) ? value : [value];
  return `${name} ${symbol} ${values.map((one) => valueText(field, operator, one)).join(', ')}`;
}

/** Whether a condition can be changed as text: what it says and more is in the JSON of others. @param {Condition | Filter} condition */
export function isText(condition) {
  const parts = (/** @type {any} */ { field, key, operator = 'is', value, ...others }) => JSON.stringify([field, key, operator, value, others]);
  try {
    const { conditions } = parseConditions(conditionText(condition));
    return conditions.length === 1 && parts(conditions[0]) === parts(condition);
  } catch {
    return false;
  }
}

/**
 * A value as it is typed: in quotes where it would be read as another value, or as several.
 * @param {string} field
 * @param {string} operator
 * @param {unknown} value
 */
export function valueText(field, operator, value) {
  if (typeof value !== 'string') return JSON.stringify(value);
  const isPlain = field !== 'content' && !/^["'[]|["',]$|,|^\s|\s$|^$|(?<=^|\s)(and|or)(?=\s|$)/i.test(value);
  return isPlain && (TEXT_OPERATORS.has(operator) || typedAs(field, value) === value) ? value : JSON.stringify(value);
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
