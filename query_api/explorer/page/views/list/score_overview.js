/** How the scores of one name are distributed over the spans that match: by label, or by value in ranges. */
import { html } from 'htm/preact';
import { post } from '../../app/api.js';
import { withCondition } from '../../app/filter.js';
import { number } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';

/** @typedef {import('../../app/filter.js').Condition} Condition */
/** @typedef {{text: string, count: number, conditions: Condition[]}} Part */
/** @typedef {{by: unknown, count: number, min?: number, max?: number}} Group */

const GROUPS_MAX = 1000;
const PARTS_MAX = 10;
const EVERYTHING = '1970-01-01T00:00:00Z';

/**
 * @param {{name: string, filter: import('../../app/filter.js').Filter, oldest?: string, newest?: string,
 *   add: (conditions: Condition[]) => void}} props
 */
export function ScoreOverview({ name, filter, oldest, newest, add }) {
  const loaded = useLoaded(async (abort) => {
    const score = { field: 'scores', key: name };
    const body = {
      filtering: withCondition(filter, { ...score, operator: 'exists' }), windowing: { oldest: oldest ?? EVERYTHING, newest },
      group_by: [score], measures: [{ of: 'count' }, { of: score, as: ['min', 'max'] }], limit: GROUPS_MAX,
    };
    const answer = await post('spans/groups/query', body, abort);
    const groups = (answer.groups ?? []).map((/** @type {any} */ { by, values }) => ({
      by: by[name], count: values.count, min: values[name]?.min, max: values[name]?.max,
    }));
    return { parts: partsOf(name, groups), others: answer.others?.values.count ?? 0, complete: answer.complete !== false };
  }, [name, JSON.stringify(filter), oldest, newest]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="soft score-overview" role="status">Loading the scores…</p>`;
  const { parts, others, complete } = loaded.data;
  const count = parts.reduce((sum, part) => sum + part.count, others);
  const most = Math.max(1, others, ...parts.map((part) => part.count));
  return html`<figure ...${marksOf(loaded, 'score-overview')}>
    <figcaption><bdi>${name}</bdi> <span class="soft">of ${number(count)} ${count === 1 ? 'span' : 'spans'}${complete ? '' : ', in a part of the time range'}</span></figcaption>
    <ul>
      ${parts.map((part) => html`<li key=${part.text}>
        ${part.conditions.length
          ? html`<button class="quiet" title="Filter by this score" onClick=${() => add(part.conditions)}><bdi>${part.text}</bdi></button>`
          : html`<bdi>${part.text}</bdi>`}
        <${Bar} count=${part.count} most=${most} /></li>`)}
      ${others > 0 && html`<li><span class="soft">others</span><${Bar} count=${others} most=${most} /></li>`}
    </ul>
  </figure>`;
}

/** @param {{count: number, most: number}} props */
function Bar({ count, most }) {
  return html`<span class="bar-track"><span class="bar-fill" style=${{ width: `${(count / most) * 100}%` }}></span></span><span>${number(count)}</span>`;
}

/** @param {string} name  @param {Group[]} groups  @returns {Part[]} */
function partsOf(name, groups) {
  const isOfNumbers = groups.every(({ by }) => typeof by === 'number');
  if (isOfNumbers && groups.length > PARTS_MAX) return ranges(name, groups);
  const sorted = [...groups].sort(isOfNumbers ? (a, b) => Number(a.by) - Number(b.by) : (a, b) => b.count - a.count);
  const rest = sorted.slice(PARTS_MAX).reduce((sum, { count }) => sum + count, 0);
  const shown = sorted.slice(0, PARTS_MAX).map((group) => ({ text: String(group.by), count: group.count, conditions: conditionsOf(name, group) }));
  return rest ? [...shown, { text: 'other labels', count: rest, conditions: [] }] : shown;
}

/**
 * Ranges of equal width. The last one includes its end.
 * @param {string} name  @param {Group[]} groups  @returns {Part[]}
 */
function ranges(name, groups) {
  const values = groups.map(({ by }) => Number(by));
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const width = (most - least) / PARTS_MAX;
  return Array.from({ length: PARTS_MAX }, (_, place) => {
    const isLast = place === PARTS_MAX - 1;
    const [from, to] = [least + place * width, isLast ? most : least + (place + 1) * width];
    const count = groups.reduce((sum, { by, count: of }) => (Number(by) >= from && (Number(by) < to || isLast) ? sum + of : sum), 0);
    const score = { field: 'scores', key: name };
    const conditions = [{ ...score, operator: 'gte', value: from }, { ...score, operator: isLast ? 'lte' : 'lt', value: to }];
    return { text: `${rounded(from)} – ${rounded(to)}`, count, conditions };
  });
}

/**
 * Conditions that are true on the spans of a group. They see values where there are some: a label alone cannot be asked for
 * then, unless all of its spans have one value.
 * @param {string} name  @param {Group} group  @returns {Condition[]}
 */
function conditionsOf(name, { by, min, max }) {
  if (min !== undefined && min !== max) return [];
  return [{ field: 'scores', key: name, operator: 'is', value: min ?? by }];
}

/** @param {number} value */
function rounded(value) {
  return String(Number(value.toPrecision(3)));
}
