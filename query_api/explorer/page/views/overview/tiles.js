/** The figures of everything, each with its line over the period and the figure of the period before. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { writeFilter } from '../../app/filter.js';
import { cost, duration, number, short } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { Change } from '../../components/change.js';
import { ErrorNotice } from '../../components/notices.js';
import { Sparkline } from '../../components/sparkline.js';
import { figures, IS_ERROR, IS_REQUEST, OF_SPANS } from './figures.js';
import { windowOf } from './period.js';

/** @typedef {{name: string, title: string, format: (value: number | undefined) => string, isWorse?: boolean, list: string, conditions: import('../../app/filter.js').Condition[], sort?: string, help: string}} Tile */

const REQUEST_TILES = /** @type {Tile[]} */ ([
  { name: 'count', title: 'Requests', format: number, list: 'traces', conditions: [IS_REQUEST], help: 'Spans without a parent' },
  { name: 'p50', title: 'Median', format: duration, isWorse: true, list: 'traces', conditions: [IS_REQUEST], sort: 'duration', help: 'Half of the requests took less' },
  { name: 'p95', title: 'p95', format: duration, isWorse: true, list: 'traces', conditions: [IS_REQUEST], sort: 'duration', help: '95 of 100 requests took less' },
]);
const SPAN_TILES = /** @type {Tile[]} */ ([
  { name: 'errors', title: 'Failed spans', format: number, isWorse: true, list: 'spans', conditions: [IS_ERROR], help: 'Also those of requests that went on and succeeded' },
  { name: 'cost', title: 'Cost', format: (value) => cost(value ?? 0), isWorse: true, list: 'traces', conditions: [], sort: 'cost', help: 'Of all model calls' },
  { name: 'tokens', title: 'Tokens', format: (value) => short(value ?? 0), list: 'traces', conditions: [], sort: 'tokens', help: 'Of all model calls' },
]);

/** @param {{period: import('./period.js').Period}} props */
export function Tiles({ period }) {
  return html`<div class="tiles figures">
    <${Group} tiles=${REQUEST_TILES} conditions=${[IS_REQUEST]} period=${period} />
    <${Group} tiles=${SPAN_TILES} conditions=${[]} period=${period} />
  </div>`;
}

/** Tiles of one request; if it fails, the others stay. @param {{tiles: Tile[], conditions: any[], period: import('./period.js').Period}} props */
function Group({ tiles, conditions, period }) {
  const names = tiles.map(({ name }) => name);
  const loaded = useLoaded((abort) => figures({ measures: OF_SPANS, names, conditions }, period, abort), [period]);
  if (loaded.error) return html`<div class="card tile failed-tile"><${ErrorNotice} error=${loaded.error} retry=${loaded.reload} /></div>`;
  const row = loaded.data?.rows[0];
  return tiles.map(({ name, title, format, isWorse = false, list, conditions: of, sort, help }) => html`<section key=${name} ...${marksOf(loaded, 'card tile')} title=${help}>
    <h2>${title}</h2>
    <p class="value">${row ? html`<a href=${href([list], { filter: writeFilter({ conditions: of }), ...windowOf(period), sort })}>${format(figureOf(row.now, name)) || '–'}</a>` : html`<span class="soft">…</span>`}</p>
    <p class="soft before" title="In the period before">${row ? html`was ${format(figureOf(row.before, name)) || '–'} ${loaded.data?.partly.length === 0 && html`<${Change} now=${figureOf(row.now, name)} before=${figureOf(row.before, name)} isWorse=${isWorse} />`}` : html`${' '}`}</p>
    <${Sparkline} values=${row?.lines[name]} />
    ${loaded.data && loaded.data.partly.length > 0 && html`<p class="soft" title="The query ran out of its budget">Counted: ${loaded.data.partly.join(', ')}.</p>`}
  </section>`);
}

/** A figure of a time; without spans a count or a sum is 0, and a percentile has no value. @param {Record<string, number | undefined>} values  @param {string} name */
function figureOf(values, name) {
  return values[name] ?? (name.startsWith('p') ? undefined : 0);
}
