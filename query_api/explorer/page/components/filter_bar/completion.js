/** What can follow the text of a condition: fields, attribute paths that occur, operators, and values that occur. */
import { post } from '../../app/api.js';
import {
  FIELD_VALUES, fieldOf, FIELDS, KEY, lastCondition, LIST_FIELDS, NUMBER_FIELDS, operatorOf, OPERATORS, PATH_FIELDS, valueText,
} from '../../app/filter.js';
import { timeRange } from '../time_range.js';

/** @typedef {{text: string, label: string, note: string}} Suggestion  `text` replaces what was typed. */
/**
 * @typedef {{known: Suggestion[], ask?: (abort: AbortSignal) => Promise<Suggestion[]>}} Completion
 *   `known` without a request; `ask` returns these and what occurs in the spans.
 */

const SUGGESTIONS_MAX = 12;
const SCORES_MAX = 100;
const WAIT_MS = 120;
const SCORES = 'scores';

/** Few spans have scores: of all spans, the newest ones are examined. */
const JUDGED = { conditions: [{ field: SCORES, operator: 'exists' }] };

/** Conditions that people look for by other words than those of a field. */
const READY = Object.entries({ 'status = error': ['error', 'failed', 'status'], 'status = ok': ['ok', 'status'], 'state = running': ['running'] });

/** Fields whose values are not worth a list, or that the API does not count: times, ids, numbers, texts and lists. */
const WITHOUT_VALUES = new Set([
  ...NUMBER_FIELDS, ...LIST_FIELDS, 'content', ...FIELDS.filter((field) => /_(time|at)$|^(trace|span|parent|.*_by)_id$/.test(field)),
]);

/**
 * What can follow; the conditions before the last `and` stay as they are.
 * @param {string} text
 * @returns {Completion}
 */
export function complete(text) {
  const [before, last] = lastCondition(text);
  const { known, ask } = completeOne(last);
  /** @param {Suggestion[]} found */
  const whole = (found) => found.map((each) => ({ ...each, text: before + each.text }));
  return { known: whole(known), ...(ask && { ask: async (abort) => whole(await ask(abort)) }) };
}

/**
 * @param {string} text  One condition.
 * @returns {Completion}
 */
function completeOne(text) {
  const [, name = '', operator, value = ''] = /^\s*(\S*)(?:\s+(\S+)(?:\s+(.*))?)?/s.exec(text) ?? [];
  if (operator !== undefined && text.includes(`${operator} `)) return values(name, operator, value);
  if (/\s$/.test(text) || (operator !== undefined && isField(name))) {
    return { known: isField(name) ? starting(OPERATORS, operator ?? '').map((each) => suggestion(`${name} ${each} `, each, '')) : [] };
  }
  return operator === undefined ? names(name) : { known: [] };
}

/** @param {string} name */
function isField(name) {
  return fieldOf(name) !== null;
}

/** @param {string} typed  @returns {Completion} */
function names(typed) {
  const fields = starting(FIELDS, typed).map((field) => {
    const isPath = PATH_FIELDS.includes(field);
    return suggestion(isPath ? `${field}.` : `${field} `, field, isPath ? (field === SCORES ? 'then a name' : 'then a path') : '');
  });
  if (typed.length < 2) return { known: fields };
  const ready = READY.filter(([, words]) => words.some((word) => word.startsWith(typed.toLowerCase())));
  const known = [...fields, ...ready.map(([condition]) => suggestion(condition, condition, ''))];
  return { known, ask: async (abort) => {
    const [all, judged] = await Promise.all([facets({ limit: 500 }, abort), facets({ filtering: JUDGED, limit: SCORES_MAX }, abort)]);
    return namesThatOccur(typed, known, { facets: all.facets, scores: judged.scores });
  } };
}

/**
 * @param {string} typed
 * @param {Suggestion[]} known
 * @param {{facets: any[], scores: any[]}} occurring
 */
function namesThatOccur(typed, known, { facets: paths, scores }) {
  if (typed.startsWith(`${SCORES}.`)) return suggestedScores(scores, typed);
  const inner = typed.replace(/^attributes\.?/, '').toLowerCase();
  const fitting = paths.filter(({ path }) => path.toLowerCase().includes(inner));
  return [...known, ...suggestedScores(scores, typed), ...fitting.map(({ path, types, count }) => suggestion(
    `attributes.${path} `, `attributes.${path}`, `${types.join(', ')} · ${count}`,
  ))].slice(0, SUGGESTIONS_MAX);
}

/**
 * Names of scores. One with spaces or marks can be written as JSON only.
 * @param {any[]} scores
 * @param {string} typed  The beginning of the name, also after `scores.`.
 */
function suggestedScores(scores, typed) {
  const inner = typed.replace(/^scores\.?/, '').toLowerCase();
  const fitting = scores.filter(({ name }) => name.toLowerCase().includes(inner) && KEY.test(name));
  return fitting.slice(0, SUGGESTIONS_MAX).map(({ name, types, count }) => suggestion(
    `${SCORES}.${name} `, `${SCORES}.${name}`, `score, ${types.join(', ')} · ${count}`,
  ));
}

/**
 * @param {string} name
 * @param {string} operator
 * @param {string} typed
 * @returns {Completion}
 */
function values(name, operator, typed) {
  const named = fieldOf(name);
  if (!named || operator === 'exists' || operator === 'not_exists' || WITHOUT_VALUES.has(named.field)) return { known: [] };
  if (PATH_FIELDS.includes(named.field) && !named.key) return { known: [] };
  const before = /^(.*,\s*)?/s.exec(typed)?.[0] ?? '';
  const last = typed.slice(before.length).toLowerCase().replace(/^["'“”„«»‘’‚]/, '');
  /** @param {unknown[]} all */
  const fitting = (all) => all.filter((value) => String(value).toLowerCase().includes(last)).slice(0, SUGGESTIONS_MAX)
    .map((value) => suggestion(`${name} ${operator} ${before}${valueText(named.field, operatorOf(operator), value)}`, String(value), ''));
  const all = FIELD_VALUES[named.field];
  return all ? { known: fitting(all) } : { known: [], ask: async (abort) => fitting(await valuesThatOccur(named, last, abort)) };
}

/**
 * Values of a field: those that contain what is typed, so that rare ones are found too.
 * @param {{field: string, key?: string}} named
 * @param {string} typed
 * @param {AbortSignal} abort
 * @returns {Promise<unknown[]>}
 */
async function valuesThatOccur(named, typed, abort) {
  const keys = [named.key ? named : named.field];
  const fitting = { conditions: [{ ...named, operator: 'contains', value: typed, options: { case_sensitive: false } }] };
  const isText = typed !== '' && Number.isNaN(Number(typed)) && named.field !== SCORES;
  const answer = await facets({ keys, limit: 50, ...(isText && { filtering: fitting }) }, abort);
  return answer.facets.flatMap(({ values: counted }) => (counted ?? []).map((/** @type {{value: unknown}} */ { value }) => value));
}

/**
 * @param {object} query
 * @param {AbortSignal} abort
 * @returns {Promise<{facets: any[], scores: any[]}>}
 */
async function facets(query, abort) {
  await new Promise((resolve) => { setTimeout(resolve, WAIT_MS); });
  if (abort.aborted) return { facets: [], scores: [] };
  const { oldest, newest } = timeRange();
  const answer = await post('spans/facets/query', { windowing: { oldest, newest }, ...query }, abort);
  return { facets: answer.facets ?? [], scores: answer.scores ?? [] };
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
