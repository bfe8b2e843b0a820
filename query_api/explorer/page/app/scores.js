/** Scores of spans: what evaluations and annotations say about them. The sort of a list by a score is `scores.NAME`. */
import { objectsOf, textOf } from './spans.js';

const PREFIX = 'scores.';

/** @typedef {{name: string, value?: number, label?: string, explanation?: string, at?: string, source?: Record<string, any>}} Score */

/** @param {import('./spans.js').Span} span  @returns {Score[]}  Newest first. */
export function scoresOf(span) {
  return /** @type {Score[]} */ (objectsOf(span.scores).filter(({ name }) => typeof name === 'string'));
}

/** The newest score of a name. @param {import('./spans.js').Span} span  @param {string} name */
export function scoreOf(span, name) {
  return scoresOf(span).find((score) => score.name === name);
}

/** The value, else the label. @param {Score | undefined} score */
export function valueOf(score) {
  return score?.value ?? score?.label;
}

/** `0.9 relevant`; a label that only repeats the value is left out. @param {Score | undefined} score */
export function scoreText(score) {
  if (score?.value === 1 && score.label === 'true') return wordOf(score.name, true);
  if (score?.value === 0 && score.label === 'false') return wordOf(score.name, false);
  const value = score?.value === undefined ? '' : String(Number(score.value.toPrecision(4)));
  return [value, textOf(score?.label)].filter((text, place) => text && (place === 0 || text !== value)).join(' ');
}

/** A boolean in words: that of thumbs is a direction. @param {string} name @param {boolean} value */
export function wordOf(name, value) {
  if (name === 'thumb') return value ? 'up' : 'down';
  return value ? 'yes' : 'no';
}

/** The sort of a list that orders it by a score. @param {string} name */
export function sortOfScore(name) {
  return `${PREFIX}${name}`;
}

/** The name of the score by which a sort orders, or which a column shows. @param {string} sort */
export function scoreOfSort(sort) {
  return sort.startsWith(PREFIX) ? sort.slice(PREFIX.length) : undefined;
}

const ATTRIBUTES = 'attributes.';
const FIELDS = ['duration', 'cost', 'tokens'];

/** What the API takes as the value by which rows are ranked. @param {string} sort */
export function rankedBy(sort) {
  const key = scoreOfSort(sort);
  if (key !== undefined) return { field: 'scores', key };
  return sort.startsWith(ATTRIBUTES) ? sort.slice(ATTRIBUTES.length) : sort;
}

/** The sort of a list, read from what the API takes. @param {any} by  @returns {string | undefined} */
export function sortFrom(by) {
  if (by?.field === 'scores') return sortOfScore(by.key);
  return by === undefined || FIELDS.includes(by) ? by : ATTRIBUTES + by;
}
