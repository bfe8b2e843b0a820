/** What the spans of a revision took, and the lists of the spans that each figure is about. */
import { href } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { withCondition } from '../../app/filter.js';
import { cost, duration, number, short } from '../../app/format.js';

const NAMES_MAX = 5;

/** @typedef {import('../../app/filter.js').Condition} Condition */
/** @typedef {{counts: any, scores: Readonly<Record<string, number>>}} Figures  `counts` as of `GET /applications/revisions/{id}?include_counts=true`; the averages of `scores` by name. */
/** @typedef {{name: string, title: string, text: (counts: any) => string, sort?: string, condition?: Condition | import('../../app/filter.js').Filter}} Figure */

/** The list of the spans that failed, as the API counts them. */
export const FAILED = { condition: { operator: 'or', conditions: [
  { field: 'status_code', operator: 'is', value: 'STATUS_CODE_ERROR' }, { field: 'events', operator: 'in', value: [{ name: 'exception' }] },
] } };

/** @type {readonly Figure[]} */
export const FIGURES = [
  { name: 'traces', title: 'Traces', text: ({ traces }) => number(traces) },
  { name: 'errors', title: 'Errors', text: ({ errors }) => number(errors), ...FAILED },
  { name: 'cost', title: 'Cost per trace', text: ({ traces, costs }) => (traces && costs.total != null ? cost(costs.total / traces) : ''), sort: 'cost' },
  { name: 'p50', title: 'Duration p50', text: ({ duration_ms: ms }) => duration(ms?.p50), sort: 'duration' },
  { name: 'p95', title: 'Duration p95', text: ({ duration_ms: ms }) => duration(ms?.p95), sort: 'duration' },
  { name: 'tokens', title: 'Tokens per trace', text: ({ traces, tokens }) => (traces && tokens.total != null ? short(Math.round(tokens.total / traces)) : ''), sort: 'tokens' },
];

/**
 * The names of scores with numbers that the spans of some revisions have, in the last 30 days.
 * @param {any[]} revisions
 * @param {AbortSignal} abort
 * @returns {Promise<string[]>}
 */
export async function scoreNames(revisions, abort) {
  const variants = new Map(revisions.map((revision) => [revision.application_variant_id, revision.application_variant_slug]));
  const value = [
    ...revisions.map(({ id }) => ({ id })),
    ...[...variants].flatMap(([id, slug]) => [{ id }, { slug, 'attributes.key': 'application_variant' }]),
  ];
  if (value.length === 0) return [];
  const conditions = [{ field: 'scores', operator: 'exists' }, { field: 'references', operator: 'in', value }];
  const { scores } = await post('spans/facets/query', { filtering: { conditions }, windowing: { oldest: '-30d' }, limit: NAMES_MAX }, abort);
  return (scores ?? []).flatMap((/** @type {any} */ { name, types }) => (types.includes('number') ? [name] : []));
}

/**
 * @param {string} id  Of the revision.
 * @param {{oldest?: string | null}} range
 * @param {readonly string[]} names  Of scores.
 * @param {AbortSignal} abort
 * @returns {Promise<Figures>}
 */
export async function loadFigures(id, { oldest }, names, abort) {
  const { counts } = await get(`applications/revisions/${id}`, { include_counts: 'true', oldest: oldest ?? null }, abort);
  if (!counts?.spans || names.length === 0) return { counts, scores: {} };
  const { filtering, windowing } = counts;
  const measures = names.map((name) => ({ of: { field: 'scores', key: name }, as: ['avg'] }));
  const { groups } = await post('spans/groups/query', { filtering, windowing, measures }, abort);
  const values = groups[0]?.values ?? {};
  return { counts, scores: Object.fromEntries(names.flatMap((name) => (values[name]?.avg == null ? [] : [[name, values[name].avg]]))) };
}

/** The list of the spans of a figure. @param {any} counts @param {{sort?: string, condition?: Figure['condition']}} [figure] */
export function figureHref({ filtering, windowing }, { sort, condition } = {}) {
  const filter = condition ? withCondition(filtering, /** @type {Condition} */ (condition)) : filtering;
  return href(['spans'], { filter: JSON.stringify(filter), oldest: windowing.oldest, newest: windowing.newest, sort });
}

/** @param {any} counts @param {string} name */
export function scoreHref(counts, name) {
  return figureHref(counts, { sort: `scores.${name}`, condition: { field: 'scores', key: name, operator: 'exists' } });
}

/** @param {number} value */
export function scoreValue(value) {
  return String(Number(value.toPrecision(3)));
}
