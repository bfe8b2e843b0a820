/** What the spans of two revisions took, side by side. */
import { html } from 'htm/preact';
import { cost, duration, number, short } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { Change } from '../../components/change.js';
import { ErrorNotice } from '../../components/notices.js';
import { FAILED, loadFigures, scoreHref, scoreNames, scoreValue, figureHref } from './figures.js';

/** @typedef {import('./figures.js').Figures} Figures */
/** @typedef {{title: string, of: (figures: Figures) => number | null | undefined, format: (value: any) => string, target: (figures: Figures) => string, kind?: Kind}} Row */
/** @typedef {'volume' | 'worse'} Kind  `worse` if a higher figure is worse; of a volume no change is shown. */

/** A figure of the counts, with the list of its spans. */
const row = (/** @type {string} */ title, /** @type {(counts: any) => number | null | undefined} */ of, /** @type {(value: any) => string} */ format, /** @type {Parameters<typeof figureHref>[1]} */ list = {}, /** @type {Kind} */ kind = 'worse') => (
  /** @type {Row} */ ({ title, of: ({ counts }) => of(counts), format, target: ({ counts }) => figureHref(counts, list), kind }));

const ROWS = [
  row('Errors per trace', (counts) => (counts.traces ? counts.errors / counts.traces : null), (value) => (value == null ? '' : value.toFixed(3)), FAILED),
  row('Cost per trace', (counts) => (counts.traces && counts.costs?.total != null ? counts.costs.total / counts.traces : null), cost, { sort: 'cost' }),
  row('Duration of a run, median', (counts) => counts.duration_ms?.p50, duration, { sort: 'duration' }),
  row('Duration of a run, p95', (counts) => counts.duration_ms?.p95, duration, { sort: 'duration' }),
];

/** How much there is to compare; a difference here says nothing about the revisions. */
const VOLUMES = [
  row('Traces', (counts) => counts.traces, number, {}, 'volume'),
  row('Spans', (counts) => counts.spans, number, {}, 'volume'),
  row('Model calls', (counts) => counts.calls, number, {}, 'volume'),
  row('Errors', (counts) => counts.errors, number, FAILED, 'volume'),
  row('Tokens', (counts) => counts.tokens?.total, short, { sort: 'tokens' }, 'volume'),
  row('Cost', (counts) => counts.costs?.total, cost, { sort: 'cost' }, 'volume'),
];

/** @param {{before: any, after: any}} props  The revisions. */
export function Counts({ before, after }) {
  const loaded = useLoaded(async (abort) => {
    const names = await scoreNames([before, after], abort);
    const [ofBefore, ofAfter] = await Promise.all([before, after].map(({ id }) => loadFigures(id, {}, names, abort)));
    return { before: ofBefore, after: ofAfter };
  }, [before.id, after.id]);
  return html`<section ...${marksOf(loaded, 'card counts')}><h2>Spans of the last 30 days</h2>
    ${loaded.error ? html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />` : loaded.data ? html`<${Table} ...${loaded.data} />` : html`<p class="soft" role="status">Loading…</p>`}</section>`;
}

/** @param {{before: Figures, after: Figures}} props */
function Table({ before, after }) {
  if (!before.counts?.spans && !after.counts?.spans) return html`<p class="soft">No span of this time refers to either version.</p>`;
  const names = [...new Set([...Object.keys(before.scores), ...Object.keys(after.scores)])];
  const scores = names.map((name) => /** @type {Row} */ ({ title: `${name}, average`, of: (figures) => figures.scores[name], format: scoreValue, target: ({ counts }) => scoreHref(counts, name) }));
  return html`<table class="plain"><thead><tr><th></th><th class="numeric">Before</th><th class="numeric">After</th><th class="numeric">Change</th></tr></thead><tbody>
    ${[...ROWS, ...scores, ...VOLUMES].map((each) => html`<${Line} key=${each.title} row=${each} before=${before} after=${after} />`)}
  </tbody></table>`;
}

/** @param {{row: Row, before: Figures, after: Figures}} props */
function Line({ row: { title, of, format, target, kind }, before, after }) {
  const [was, is] = [before, after].map((figures) => (figures.counts ? of(figures) : null));
  const cell = (/** @type {Figures} */ figures, /** @type {number | null | undefined} */ value) => html`<td class="numeric">${value == null ? '' : value === 0 ? format(value) : html`<a href=${target(figures)}>${format(value)}</a>`}</td>`;
  return html`<tr class=${kind === 'volume' ? 'soft' : ''}><th scope="row"><bdi>${title}</bdi></th>${cell(before, was)}${cell(after, is)}<td class="numeric soft">${kind !== 'volume' && html`<${Change} now=${is ?? undefined} before=${was ?? undefined} isWorse=${kind === 'worse'} />`}</td></tr>`;
}
