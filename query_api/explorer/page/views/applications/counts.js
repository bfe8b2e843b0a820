/** What the spans of two revisions took, side by side. */
import { html } from 'htm/preact';
import { cost, duration, number, short } from '../../app/format.js';
import { FAILED, scoreHref, scoreValue, spansHref } from './figures.js';

/** @typedef {import('./figures.js').Figures} Figures */
/** @typedef {{title: string, of: (figures: Figures) => number | null | undefined, format: (value: any) => string, target: (figures: Figures) => string, isVolume?: boolean}} Row */

/** A figure of the counts, with the list of its spans. */
const row = (/** @type {string} */ title, /** @type {(counts: any) => number | null | undefined} */ of, /** @type {(value: any) => string} */ format, /** @type {Parameters<typeof spansHref>[1]} */ list = {}, isVolume = false) => (
  /** @type {Row} */ ({ title, of: ({ counts }) => of(counts), format, target: ({ counts }) => spansHref(counts, list), isVolume }));

const ROWS = [
  row('Errors per trace', (counts) => (counts.traces ? counts.errors / counts.traces : null), (value) => (value == null ? '' : value.toFixed(3)), FAILED),
  row('Cost per trace', (counts) => (counts.traces && counts.costs?.total != null ? counts.costs.total / counts.traces : null), cost, { sort: 'cost' }),
  row('Duration of a run, median', (counts) => counts.duration_ms?.p50, duration, { sort: 'duration' }),
  row('Duration of a run, p95', (counts) => counts.duration_ms?.p95, duration, { sort: 'duration' }),
];

/** How much there is to compare; a difference here says nothing about the revisions. */
const VOLUMES = [
  row('Traces', (counts) => counts.traces, number, {}, true),
  row('Spans', (counts) => counts.spans, number, {}, true),
  row('Model calls', (counts) => counts.calls, number, {}, true),
  row('Errors', (counts) => counts.errors, number, FAILED, true),
  row('Tokens', (counts) => counts.tokens?.total, short, { sort: 'tokens' }, true),
  row('Cost', (counts) => counts.costs?.total, cost, { sort: 'cost' }, true),
];

/** @param {{before: Figures, after: Figures}} props */
export function Counts({ before, after }) {
  const names = [...new Set([...Object.keys(before.scores), ...Object.keys(after.scores)])];
  const scores = names.map((name) => /** @type {Row} */ ({ title: `${name}, average`, of: (figures) => figures.scores[name], format: scoreValue, target: ({ counts }) => scoreHref(counts, name) }));
  return html`<table class="plain"><thead><tr><th></th><th class="numeric">Before</th><th class="numeric">After</th><th class="numeric">Change</th></tr></thead><tbody>
    ${[...ROWS, ...scores, ...VOLUMES].map((each) => html`<${Line} key=${each.title} row=${each} before=${before} after=${after} />`)}
  </tbody></table>`;
}

/** @param {{row: Row, before: Figures, after: Figures}} props */
function Line({ row: { title, of, format, target, isVolume }, before, after }) {
  const [was, is] = [before, after].map((figures) => (figures.counts ? of(figures) : null));
  const change = !isVolume && was && is != null ? `${is >= was ? '+' : '−'}${Math.abs(((is - was) / was) * 100).toFixed(0)} %` : '';
  const cell = (/** @type {Figures} */ figures, /** @type {number | null | undefined} */ value) => html`<td class="numeric">${value == null ? '' : value === 0 ? format(value) : html`<a href=${target(figures)}>${format(value)}</a>`}</td>`;
  return html`<tr class=${isVolume ? 'soft' : ''}><th scope="row"><bdi>${title}</bdi></th>${cell(before, was)}${cell(after, is)}<td class="numeric soft">${change}</td></tr>`;
}

/** The spans that were counted. @param {{counts: any}} props  Of `GET /applications/revisions/{id}?include_counts=true`. */
export function SpansOf({ counts }) {
  return counts ? html`<a href=${spansHref(counts)}>${number(counts.spans)} spans</a>` : null;
}
