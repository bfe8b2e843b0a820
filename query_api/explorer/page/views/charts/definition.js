/** What a chart shows: a measure of spans, by a key, over time. All of it is in the address. */
import { param } from '../../app/address.js';
import { fieldOf } from '../../app/filter.js';

export const STATISTICS = ['sum', 'avg', 'min', 'max', 'p50', 'p90', 'p95', 'p99', 'uniq'];
export const TOPS = [3, 5, 8];

/** Measures that are numbers by themselves. */
const COUNTS = ['count', 'errors'];
const USUAL_STATISTIC = /** @type {Record<string, string>} */ ({ duration: 'p95' });

/** @typedef {{field: string, key?: string}} Place */
/** @typedef {{measure: string, statistic: string, by: string, top: number}} Definition  `statistic` is `''` for a count. */
/** @typedef {{of: string | Place, statistic: string, name: string, by: Place | null, byName: string}} Asked  What the API is asked for. */

/** The chart of the address. @returns {Definition} */
export function currentDefinition() {
  return readDefinition({ measure: param('measure'), as: param('as'), by: param('by'), top: param('top') });
}

/** @param {Record<string, unknown>} members  Of an address, or of a saved chart. @returns {Definition} */
export function readDefinition({ measure, as, by, top }) {
  const of = String(measure || 'count');
  const statistic = STATISTICS.find((each) => each === as) ?? USUAL_STATISTIC[of] ?? 'sum';
  return { measure: of, statistic: isCount(of) ? '' : statistic, by: by === null || by === undefined ? 'model' : String(by), top: TOPS.find((each) => each === Number(top)) ?? 5 };
}

/** @param {string} measure */
export function isCount(measure) {
  return COUNTS.includes(measure);
}

/**
 * @param {Definition} definition
 * @returns {Asked}
 * @throws {Error} in words, if a name means nothing.
 */
export function askedBy({ measure, statistic, by }) {
  const of = isCount(measure) ? measure : placeOf(measure, 'measure');
  const key = by === 'all' ? null : placeOf(by, 'key');
  const nameOf = (/** @type {string | Place} */ place) => (typeof place === 'string' ? place : place.key ?? place.field);
  return { of, statistic, name: nameOf(of), by: key, byName: key ? nameOf(key) : '' };
}

/** @param {string} name @param {string} what @returns {Place} */
function placeOf(name, what) {
  const place = fieldOf(name.trim());
  if (!place) throw new Error(`“${name}” is no ${what}: give a field such as model, the path of an attribute such as app.region, or scores.NAME.`);
  return place;
}
