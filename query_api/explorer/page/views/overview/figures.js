/**
 * The figures of the overview, by the groups of the API. A request is a span without a parent: what it took is what its
 * whole trace took. The groups of a period and of the one before it take a request each, at most two at a time.
 */
import { post } from '../../app/api.js';
import { localTime } from '../../app/format.js';
import { withoutAside } from '../../components/aside.js';
import { windowOf } from './period.js';

/** @typedef {import('./period.js').Period} Period */
/** @typedef {import('../../app/filter.js').Condition | import('../../app/filter.js').Filter} Condition */
/** @typedef {Record<string, number | undefined>} Values  By the names of `FIGURES`. */
/** @typedef {{key: string, now: Values, before: Values, lines: Record<string, (number | null)[]>}} Row */
/** @typedef {{rows: Row[], othersCount: number, partly: string[]}} Figures  `partly` says of which times the figures are, where a query ran out of its budget. */
/** @typedef {{field: string, key?: string}} Key */

export const IS_REQUEST = { field: 'parent_id', operator: 'not_exists' };
export const IS_ERROR = { field: 'status_code', operator: 'is', value: 'STATUS_CODE_ERROR' };
const PARALLEL_MAX = 2;

/** Of the period before, whose groups are not those that are shown. */
const GROUPS_MAX = 1_000;
const NOTHING = { groups: [] };

/** What is computed of spans, and of whole requests. */
export const OF_SPANS = /** @type {Measures} */ ({
  count: [{ of: 'count' }, ({ count }) => count],
  errors: [{ of: 'errors' }, ({ errors }) => errors],
  cost: [{ of: 'cost', as: ['sum'] }, ({ cost }) => cost?.sum],
  tokens: [{ of: 'tokens', as: ['sum'] }, ({ tokens }) => tokens?.sum],
  p50: [{ of: 'duration', as: ['p50', 'p95'] }, ({ duration }) => duration?.p50],
  p95: [{ of: 'duration', as: ['p50', 'p95'] }, ({ duration }) => duration?.p95],
});
const [COST, TOKENS] = ['ag.metrics.costs.cumulative.total', 'ag.metrics.tokens.cumulative.total'];
export const OF_REQUESTS = /** @type {Measures} */ ({
  ...OF_SPANS,
  cost: [{ of: COST, as: ['sum'] }, (values) => values[COST]?.sum],
  tokens: [{ of: TOKENS, as: ['sum'] }, (values) => values[TOKENS]?.sum],
});
/** @typedef {Record<string, [object, (values: any) => number | undefined]>} Measures */

/**
 * @param {{measures: Measures, names: string[], conditions: Condition[], by?: Key, limit?: number}} what
 *   `names` are the measures to compute; without `by` there is one row.
 * @param {Period} period
 * @param {AbortSignal} abort
 * @returns {Promise<Figures>}
 */
export async function figures({ measures, names, conditions, by, limit = 1 }, period, abort) {
  const lists = withoutAside({ conditions }).conditions; // as the lists that the figures lead to
  const chosen = names.map((name) => measures[name] ?? []);
  const asked = [...new Map(chosen.map(([measure]) => [JSON.stringify(measure), measure])).values()];
  const body = { measures: asked, group_by: by ? [by] : [] };
  const read = (/** @type {any} */ values) => Object.fromEntries(names.map((name) => [name, measures[name]?.[1](values)]));
  const ask = (/** @type {Condition[]} */ all, /** @type {import('./period.js').Range} */ range, /** @type {object} */ more) => inTurn(
    () => post('spans/groups/query', { ...body, filtering: { conditions: all }, windowing: windowOf(range), ...more }, abort), abort, range !== period);
  const now = await ask(by ? [...lists, { ...by, operator: 'exists' }] : lists, period, { limit, interval: period.interval, totals: true });
  const keyOf = (/** @type {any} */ group) => JSON.stringify(by ? group.by[by.key ?? by.field] : null);
  const keys = now.totals.map(keyOf);
  // Most periods have few keys: their figures come sooner than those of a filter by the keys that are shown.
  const before = by && keys.length === 0 ? NOTHING : await ask(lists, period.before, { limit: by ? GROUPS_MAX : 1 });
  const earlier = new Map(before.groups.map((/** @type {any} */ group) => [keyOf(group), read(group.values)]));
  const others = before.others ? keys.filter((/** @type {string} */ key) => !earlier.has(key)).map((/** @type {string} */ key) => JSON.parse(key)) : [];
  const rest = by && others.length > 0 ? await ask([...lists, { ...by, operator: 'in', value: others }], period.before, { limit: others.length }) : NOTHING;
  for (const group of rest.groups) earlier.set(keyOf(group), read(group.values));
  const rows = now.totals.map((/** @type {any} */ group) => ({
    key: by ? String(group.by[by.key ?? by.field]) : '', now: read(group.values), before: earlier.get(keyOf(group)) ?? {},
    lines: linesOf(now.groups.filter((/** @type {any} */ each) => keyOf(each) === keyOf(group)), names, read, period),
  }));
  if (!by && rows.length === 0) rows.push({ key: '', now: {}, before: earlier.get('null') ?? {}, lines: {} });
  const partly = [[now, period], [before, period.before], [rest, period.before]].flatMap(([{ examined }, { title }]) => (
    examined ? [`${title} from ${localTime(examined.oldest)} to ${localTime(examined.newest)}`] : []));
  return { rows, othersCount: now.others?.groups_count ?? 0, partly };
}

/**
 * The values of each bucket of a period; 0 where there is no span, or `null` for a duration.
 * @param {any[]} buckets
 * @param {string[]} names
 * @param {(values: any) => Values} read
 * @param {Period} period
 */
function linesOf(buckets, names, read, { from, to, bucketMs }) {
  const byTime = new Map(buckets.map(({ at, values }) => [new Date(at).getTime(), read(values)]));
  const first = Math.floor(from / bucketMs) * bucketMs;
  const times = Array.from({ length: Math.ceil((to - first) / bucketMs) }, (_, place) => first + place * bucketMs);
  return Object.fromEntries(names.map((name) => [name, times.map((time) => byTime.get(time)?.[name] ?? (name.startsWith('p') ? null : 0))]));
}

let running = 0;
/** @type {(() => void)[]} */
const waiting = [];

/**
 * Run a request when fewer than `PARALLEL_MAX` of the others run: the first figures come soon, and the engine has room.
 * @template T
 * @param {() => Promise<T>} request
 * @param {AbortSignal} abort
 * @param {boolean} isSecond  The second request of a part runs before the first ones of others: what began is shown soon.
 */
async function inTurn(request, abort, isSecond) {
  if (running >= PARALLEL_MAX) await new Promise((resolve) => { waiting[isSecond ? 'unshift' : 'push'](() => resolve(undefined)); });
  running += 1;
  try {
    abort.throwIfAborted();
    return await request();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}
