/** What a written filter means, as the API reads it. */
import { post } from '../../app/api.js';

/** @typedef {import('../../app/filter.js').Condition} Condition */

/**
 * @typedef {{conditions: Condition[], id: Condition | null, isSearch: boolean, hint: string | null}} Read
 *   `id` if the text is the id of a trace or a span and nothing else. `isSearch` if it holds no condition: its words are searched for; `hint` is what may have been meant.
 */

/** The text is no filter. `begin` and `end` are the characters that are why. */
export class FilterProblem extends Error {
  /** @param {{message: string, begin: number, end: number}} problem  @param {number} skipped  Characters before what was read. */
  constructor({ message, begin, end }, skipped) {
    super(message);
    this.begin = begin + skipped;
    this.end = end + skipped;
  }
}

/**
 * Read a text. An `and` at its beginning joins it with the conditions that are there.
 * @param {string} text
 * @returns {Promise<Read>}
 * @throws {FilterProblem}
 */
export async function readText(text) {
  const skipped = /^\s*and\s+/i.exec(text)?.[0].length ?? 0;
  const answer = await post('filters/parse', { text: text.slice(skipped) });
  if (answer.problem) throw new FilterProblem(answer.problem, skipped);
  const conditions = answer.parts.map((/** @type {{filtering: Condition}} */ part) => part.filtering);
  return { conditions, id: answer.is_id ? conditions[0] : null, isSearch: answer.searched === true, hint: answer.hint ?? null };
}
