/** What the spans of revisions took. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { cost, duration, number, short } from '../../app/format.js';

const ROWS = /** @type {[string, (counts: any) => number | null | undefined, (value: any) => string][]} */ ([
  ['Errors per trace', (counts) => (counts.traces ? counts.errors / counts.traces : null), (value) => (value == null ? '' : value.toFixed(3))],
  ['Cost per trace', (counts) => (counts.traces && counts.costs?.total != null ? counts.costs.total / counts.traces : null), cost],
  ['Duration of a run, median', (counts) => counts.duration_ms?.p50, duration],
  ['Duration of a run, p95', (counts) => counts.duration_ms?.p95, duration],
]);

/** How much there is to compare; a difference here says nothing about the revisions. */
const VOLUMES = /** @type {typeof ROWS} */ ([
  ['Traces', (counts) => counts.traces, number],
  ['Spans', (counts) => counts.spans, number],
  ['Model calls', (counts) => counts.calls, number],
  ['Errors', (counts) => counts.errors, number],
  ['Tokens', (counts) => counts.tokens?.total, short],
  ['Cost', (counts) => counts.costs?.total, cost],
]);

/** Two revisions side by side. @param {{before: any, after: any}} props */
export function Counts({ before, after }) {
  return html`<table class="plain"><thead><tr><th></th><th class="numeric">Before</th><th class="numeric">After</th><th class="numeric">Change</th></tr></thead><tbody>
    ${ROWS.map(([title, of, format]) => {
      const [was, is] = [before ? of(before) : null, after ? of(after) : null];
      const change = was && is != null ? `${is >= was ? '+' : '−'}${Math.abs(((is - was) / was) * 100).toFixed(0)} %` : '';
      return html`<tr><th scope="row">${title}</th><td class="numeric">${format(was)}</td><td class="numeric">${format(is)}</td><td class="numeric soft">${change}</td></tr>`;
    })}
    ${VOLUMES.map(([title, of, format]) => html`<tr class="soft"><th scope="row">${title}</th>
      <td class="numeric">${format(before ? of(before) : null)}</td><td class="numeric">${format(after ? of(after) : null)}</td><td></td></tr>`)}
  </tbody></table>`;
}

/** The spans that were counted. @param {{counts: any}} props  Of `GET /applications/revisions/{id}?include_counts=true`. */
export function SpansOf({ counts }) {
  if (!counts) return null;
  const { filtering, windowing } = counts;
  return html`<a href=${href(['spans'], { filter: JSON.stringify(filtering), oldest: windowing.oldest, newest: windowing.newest })}>${number(counts.spans)} spans</a>`;
}
