/** The histogram above a list: spans and errors over its time range, by the groups of the API. */
import { html } from 'htm/preact';
import { useMemo } from 'preact/hooks';
import { post } from '../../app/api.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { lazy } from '../../components/lazy.js';
import { rangeMs } from '../../components/time_range.js';

/** Widths of a bucket that the API knows, and the range in seconds up to which each is used. */
const INTERVALS = /** @type {[string, number][]} */ ([
  ['1m', 60], ['5m', 300], ['15m', 900], ['30m', 1800], ['1h', 3600], ['3h', 10_800], ['6h', 21_600], ['12h', 43_200], ['1d', 86_400],
]);
const BUCKETS_MAX = 120;

/** Without a time range the histogram shows at most the last 30 days of data: one old span would squeeze all others. */
const EXTENT_MAX_MS = 30 * 86_400_000;

const Space = () => html`<div class="histogram loading-box" aria-hidden="true"></div>`;

/** With the library that draws it, which only lists need. */
const Histogram = lazy(async () => (await import('../../components/histogram.js')).Histogram, Space);

/** @param {{filter: object, oldest?: string, newest?: string}} props */
export function Overview({ filter, oldest, newest }) {
  const inputs = [JSON.stringify(filter), oldest, newest];
  const range = useMemo(() => rangeMs({ oldest, newest }), inputs);
  const loaded = useLoaded(async (abort) => {
    const { from, to } = range.from === null ? await extent(filter, range.to, abort) : { from: range.from, to: range.to ?? Date.now() };
    const [interval, seconds] = intervalFor((to - from) / 1000);
    const body = { filtering: filter, windowing: { oldest: oldest ?? new Date(from - 1).toISOString(), newest }, group_by: [], interval, measures: [{ of: 'count' }, { of: 'errors' }] };
    const answer = await post('spans/groups/query', body, abort);
    const buckets = (answer.groups ?? []).map((/** @type {any} */ group) => ({
      at: new Date(group.at).getTime() / 1000, count: group.values.count, errors: group.values.errors,
    }));
    buckets.sort((/** @type {any} */ a, /** @type {any} */ b) => a.at - b.at);
    return { buckets, seconds, from: from / 1000, to: to / 1000, complete: answer.complete !== false };
  }, inputs);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<${Space} />`;
  return html`<div ...${marksOf(loaded)}>
    <${Histogram} ...${loaded.data} />
    ${!loaded.data.complete && html`<p class="soft" role="status">The histogram covers only part of the time range: its query ran out of budget.</p>`}
  </div>`;
}

/**
 * The time of all that matches, where the range has no beginning: by the first and the last span.
 * @param {object} filter
 * @param {number | null} newestMs
 * @param {AbortSignal} abort
 */
export async function extent(filter, newestMs, abort) {
  const first = await post('spans/query', { filtering: filter, windowing: { limit: 1, order: 'ascending' } }, abort);
  const last = await post('spans/query', { filtering: filter, windowing: { limit: 1 } }, abort);
  const time = (/** @type {any} */ answer) => new Date(answer.spans[0]?.start_time ?? Date.now()).getTime();
  const to = newestMs ?? time(last) + 1;
  return { from: Math.max(time(first), to - EXTENT_MAX_MS), to };
}

/** The width of a bucket for a range, as the API names it and in seconds. @param {number} rangeS  @returns {[string, number]} */
export function intervalFor(rangeS) {
  return INTERVALS.find(([, seconds]) => rangeS / seconds <= BUCKETS_MAX) ?? ['1d', 86_400];
}
