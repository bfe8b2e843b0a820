/** Columns of scores: one for each name that occurs in its rows, and for those that were chosen. */
import { html } from 'htm/preact';
import { scoreOf, scoreOfSort, scoresOf, scoreText, sortOfScore, valueOf } from '../../app/scores.js';

/** Columns in the menu; a project may have any number of names. */
const NAMES_MAX = 30;

/**
 * @param {any[]} rows
 * @param {Iterable<string>} chosen  Names of columns, and the sort of the list.
 * @param {boolean} isOfTraces  A trace matches if one of its spans does, so no filter says "not this".
 * @returns {import('./columns.js').Column[]}
 */
export function scoreColumns(rows, chosen, isOfTraces) {
  const names = new Set([...chosen].map(scoreOfSort).filter((name) => name !== undefined));
  for (const row of rows) {
    for (const { name } of scoresOf(row)) if (names.size < NAMES_MAX) names.add(name);
  }
  return [...names].sort().map((name) => columnOf(name, rows.flatMap((row) => scoreOf(row, name) ?? []), isOfTraces));
}

/** @param {string} name  @param {import('../../app/scores.js').Score[]} scores  Of this name.  @param {boolean} isOfTraces  @returns {import('./columns.js').Column} */
function columnOf(name, scores, isOfTraces) {
  const isText = scores.length > 0 && scores.every(({ value }) => value === undefined);
  const order = isText ? { sortNote: 'There is no order by texts' } : { sort: sortOfScore(name) };
  return {
    name: sortOfScore(name), title: name, width: '8rem', numeric: true, ...order,
    cell: (span) => {
      const score = scoreOf(span, name);
      return html`<span title=${score?.explanation ?? ''}>${scoreText(score)}</span>`;
    },
    quick: (span) => {
      const score = scoreOf(span, name);
      const value = valueOf(score);
      return value === undefined ? null : { condition: { field: 'scores', key: name, operator: 'is', value }, text: scoreText(score), any: true, ...(isOfTraces && { others: [] }) };
    },
  };
}
