/** A chart of any measure by any key over time, with the figures of the whole time, each of which leads to its spans. */
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { href, setParams } from '../../app/address.js';
import { post } from '../../app/api.js';
import { writeFilter, withCondition } from '../../app/filter.js';
import { cost, duration, number, short } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { hasRange } from '../../components/default_range.js';
import { currentFilter, FilterBar, wrongCondition } from '../../components/filter_bar/filter_bar.js';
import { ErrorNotice } from '../../components/notices.js';
import { rangeMs, TimeRange, timeRange } from '../../components/time_range.js';
import { extent, intervalFor } from '../list/overview.js';
import { askedBy, currentDefinition, isCount, STATISTICS, TOPS } from './definition.js';
import { Lines } from './lines.js';
import { SavedCharts } from './saved_charts.js';

const MEASURES = ['count', 'errors', 'cost', 'tokens', 'duration', 'trace_id', 'ag.metrics.costs.cumulative.total'];
const KEYS = ['all', 'model', 'service', 'user', 'session', 'span_name', 'operation', 'span_type', 'status_code', 'provider', 'ag.references.application.slug'];
const WEEK = '-7d';

/** @typedef {import('./definition.js').Definition} Definition */
/** @typedef {{text: string, key: unknown, total: any, values: (number | null)[]}} Series */

export function ChartsView() {
  useEffect(() => { if (!hasRange()) setParams({ oldest: WEEK }, { replace: true }); });
  return hasRange() ? html`<${Chart} />` : html`<p class="loading" role="status">Loading…</p>`;
}

function Chart() {
  const definition = currentDefinition();
  const filter = currentFilter();
  const range = timeRange();
  const inputs = [JSON.stringify(definition), JSON.stringify(filter), range.oldest, range.newest];
  const loaded = useLoaded((abort) => load(definition, filter, range, abort), inputs);
  const format = formatOf(definition);
  return html`<div class="page charts">
    <div class="page-head"><h1>Chart</h1><${SavedCharts} definition=${definition} filter=${filter} range=${range} /></div>
    <div class="chart-form">
      <${Choice} label="Measure" name="measure" value=${definition.measure} options=${MEASURES} />
      ${!isCount(definition.measure) && html`<label class="select">as <select aria-label="Statistic" value=${definition.statistic} onChange=${(/** @type {any} */ event) => setParams({ as: event.target.value })}>
        ${STATISTICS.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>`}
      <${Choice} label="by" name="by" value=${definition.by} options=${KEYS} />
      <label class="select">Lines <select aria-label="Number of lines" value=${String(definition.top)} onChange=${(/** @type {any} */ event) => setParams({ top: event.target.value })}>
        ${TOPS.map((each) => html`<option value=${String(each)}>${each}</option>`)}</select></label>
      <${TimeRange} />
      <${FilterBar} error=${loaded.error} />
    </div>
    ${loaded.error && wrongCondition(loaded.error) === null && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${!loaded.data && !loaded.error && html`<div class="card lines-box" role="status"><span class="soft">Loading…</span></div>`}
    ${loaded.data && loaded.data.series.length === 0 && html`<div class="card lines-box"><p class="soft">No span matches in this time range. Choose another one, or remove a condition.</p></div>`}
    ${loaded.data && loaded.data.series.length > 0 && html`<div ...${marksOf(loaded, 'card')}>
      <${Lines} times=${loaded.data.times} lines=${loaded.data.lines} format=${format} label="${titleOf(definition)} over time. Drag to zoom." />
      <${Figures} definition=${definition} filter=${filter} data=${loaded.data} format=${format} /></div>`}
  </div>`;
}

/** A text with suggestions, which counts when it is left or entered. @param {{label: string, name: string, value: string, options: string[]}} props */
function Choice({ label, name, value, options }) {
  return html`<label class="select">${label} <input list="chart-${name}" name=${name} value=${value} autocomplete="off" spellcheck="false"
    onChange=${(/** @type {any} */ event) => setParams({ [name]: event.target.value.trim() || 'all' })} />
    <datalist id="chart-${name}">${options.map((each) => html`<option value=${each}></option>`)}</datalist></label>`;
}

/** @param {{definition: Definition, filter: import('../../app/filter.js').Filter, data: Awaited<ReturnType<typeof load>>, format: (value: number) => string}} props */
function Figures({ definition, filter, data, format }) {
  const { series, othersCount, complete, asked, window } = data;
  const link = (/** @type {Series} */ { key }) => {
    const condition = asked.by && (key === null ? { ...asked.by, operator: 'not_exists' } : { ...asked.by, operator: 'is', value: key });
    const chosen = definition.measure === 'errors' ? withCondition(filter, { field: 'status_code', operator: 'is', value: 'STATUS_CODE_ERROR' }) : filter;
    return href(['spans'], { filter: writeFilter(condition ? withCondition(chosen, condition) : chosen), ...window });
  };
  return html`<table class="plain"><thead><tr><th>${asked.by ? definition.by : ''}</th><th class="numeric">${titleOf(definition)}, whole time</th></tr></thead><tbody>
      ${series.map((each, place) => html`<tr key=${each.text}><th scope="row"><svg class="swatch" viewBox="0 0 12 12" aria-hidden="true"><rect class="series-${place + 1}" width="12" height="12" rx="3" /></svg> <bdi>${each.text}</bdi></th>
        <td class="numeric"><a href=${link(each)}>${format(each.total)}</a></td></tr>`)}
    </tbody></table>
    ${othersCount > 0 && html`<p class="soft">and ${number(othersCount)} more that are not drawn</p>`}
    ${!complete && html`<p class="soft" role="status">The query ran out of its budget: these are figures of the newest part of the time.</p>`}`;
}

/**
 * @param {Definition} definition
 * @param {import('../../app/filter.js').Filter} filter
 * @param {{oldest?: string, newest?: string}} range
 * @param {AbortSignal} abort
 */
async function load(definition, filter, range, abort) {
  const asked = askedBy(definition);
  const bounds = rangeMs(range);
  const { from, to } = bounds.from === null ? await extent(filter, bounds.to, abort) : { from: bounds.from, to: bounds.to ?? Date.now() };
  const [interval, seconds] = intervalFor((to - from) / 1000);
  const window = { oldest: new Date(from).toISOString(), newest: new Date(to).toISOString() };
  const measure = definition.statistic ? { of: asked.of, as: [definition.statistic] } : { of: asked.of };
  const answer = await post('spans/groups/query', {
    filtering: filter, windowing: window, group_by: asked.by ? [asked.by] : [], measures: [measure], interval, totals: true, limit: definition.top,
    order_by: definition.statistic ? { of: asked.of, as: definition.statistic } : { of: asked.of },
  }, abort);
  const read = (/** @type {any} */ values) => (definition.statistic ? values[asked.name]?.[definition.statistic] : values[asked.name]);
  const first = Math.floor(from / 1000 / seconds) * seconds;
  const times = Array.from({ length: Math.ceil((to / 1000 - first) / seconds) }, (_, place) => first + place * seconds);
  const isSum = !definition.statistic || definition.statistic === 'sum' || definition.statistic === 'uniq';
  const series = answer.totals.map((/** @type {any} */ group) => {
    const key = asked.by ? group.by[asked.byName] : null;
    const own = answer.groups.filter((/** @type {any} */ each) => !asked.by || each.by[asked.byName] === key);
    const byTime = new Map(own.map((/** @type {any} */ each) => [new Date(each.at).getTime() / 1000, read(each.values)]));
    return { text: asked.by ? (key === null ? '(none)' : String(key)) : 'all spans', key, total: read(group.values), values: times.map((time) => byTime.get(time) ?? (isSum ? 0 : null)) };
  }).filter((/** @type {Series} */ { total }) => total !== undefined);
  const lines = series.map((/** @type {Series} */ { text, values }) => ({ name: text, values }));
  return { asked, window, times, series: /** @type {Series[]} */ (series), lines, othersCount: answer.others?.groups_count ?? 0, complete: answer.complete !== false };
}

/** @param {Definition} definition */
function titleOf({ measure, statistic }) {
  return statistic ? `${measure}, ${statistic}` : measure;
}

/** @param {Definition} definition  @returns {(value: number) => string} */
function formatOf({ measure, statistic }) {
  if (statistic === 'uniq' || isCount(measure)) return short;
  if (measure === 'duration') return duration;
  if (measure === 'cost' || measure.startsWith('ag.metrics.costs.')) return cost;
  return (value) => (Math.abs(value) >= 100 ? short(Math.round(value)) : String(Number(value.toPrecision(4))));
}
