/** The figures by one value: models, services, applications or users. */
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import { href } from '../../app/address.js';
import { writeFilter } from '../../app/filter.js';
import { cost, duration, number, short } from '../../app/format.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Sparkline } from '../../components/sparkline.js';
import { figures, IS_ERROR } from './figures.js';
import { windowOf } from './period.js';

/** @typedef {import('../../app/filter.js').Condition} Condition */
/**
 * @typedef {object} Part
 * @property {string} title
 * @property {string} noun  What is counted.
 * @property {import('./figures.js').Key} by
 * @property {string} list  The view that figures lead to.
 * @property {import('./figures.js').Measures} measures
 * @property {Condition[]} conditions
 * @property {string} none  What to say if no span has the value.
 * @property {(key: string) => string} [hrefOf]  The page of a value.
 * @property {() => string} [all]  The page of all values.
 */

const COLUMNS = /** @type {[string, string, (value: number | undefined) => string, {sort?: string, wide?: boolean, failed?: boolean}][]} */ ([
  ['errors', 'Failed', (value) => number(value ?? 0), { failed: true }],
  ['cost', 'Cost', cost, { sort: 'cost' }],
  ['tokens', 'Tokens', short, { sort: 'tokens', wide: true }],
  ['p50', 'Median', duration, { sort: 'duration', wide: true }],
  ['p95', 'p95', duration, { sort: 'duration', wide: true }],
]);

/** Values of a part, and after a click. */
const [ROWS, ROWS_MAX] = [8, 100];
const NAMES = ['count', ...COLUMNS.map(([name]) => name)];

/**
 * @param {{part: Part, period: import('./period.js').Period, isHidden: boolean, settle: () => void}} props
 *   It is hidden until the parts above are settled, so that nothing that is read moves.
 */
export function Breakdown({ part, period, isHidden, settle }) {
  const { title, noun, by, measures, conditions, none, all } = part;
  const [limit, setLimit] = useState(ROWS);
  const loaded = useLoaded((abort) => figures({ measures, names: NAMES, conditions, by, limit }, period, abort), [period, limit]);
  useEffect(() => { if (loaded.data || loaded.error) settle(); }, [loaded.data, loaded.error]);
  const { rows = [], othersCount = 0, partly = [] } = loaded.data ?? {};
  return html`<section ...${marksOf(loaded, 'card breakdown')} aria-label=${title} hidden=${isHidden}>
    <h2>${title}${rows.length > 0 && html` <small class="soft">small figures: ${period.before.title}</small>`}</h2>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${!loaded.data && !loaded.error && html`<p class="soft" role="status">Loading…</p>`}
    ${loaded.data && rows.length === 0 && html`<p class="soft">${none}</p>`}
    ${rows.length > 0 && html`<table class="plain figures"><thead><tr><th>${title.slice(0, -1)}</th><th class="wide"><span class="hidden">Over time</span></th><th class="numeric">${noun}</th>
      ${COLUMNS.map(([, name, , { wide, failed }]) => html`<th class="numeric ${wide ? 'wide' : ''}" title=${failed ? `${noun} that failed` : null}>${name}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<${Line} key=${row.key} part=${part} period=${period} row=${row} />`)}</tbody></table>`}
    ${(othersCount > 0 || (all && rows.length > 0)) && html`<p class="soft">${othersCount > 0 && (limit < ROWS_MAX
      ? html`<button class="quiet" onClick=${() => setLimit(ROWS_MAX)}>Show more (${number(othersCount)})</button>${' '}` : `and ${number(othersCount)} more. `)}${all && html`<a href=${all()}>All ${title.toLowerCase()}</a>`}</p>`}
    ${rows.length > 0 && html`<p class="chart-link"><a href=${href(['charts'], { measure: 'count', by: by.key ?? by.field, filter: writeFilter({ conditions }), ...windowOf(period) })}>As a chart</a></p>`}
    ${partly.length > 0 && html`<p class="soft" role="status">The query ran out of its budget. Counted: ${partly.join(', ')}.</p>`}
  </section>`;
}

/** @param {{part: Part, period: import('./period.js').Period, row: import('./figures.js').Row}} props */
function Line({ part, period, row }) {
  const { by, conditions, list, hrefOf } = part;
  const ofRow = [...conditions, { ...by, operator: 'is', value: row.key }];
  const link = (/** @type {Condition[]} */ added = [], /** @type {string} */ sort = '') => href([list], { filter: writeFilter({ conditions: [...ofRow, ...added] }), ...windowOf(period), sort });
  return html`<tr>
    <th scope="row"><a href=${hrefOf?.(row.key) ?? link()}><bdi>${row.key}</bdi></a></th>
    <td class="wide line"><${Sparkline} values=${row.lines.count} /></td>
    <${Figure} now=${number(row.now.count)} before=${number(row.before.count ?? 0)} target=${link()} />
    ${COLUMNS.map(([name, , format, { sort, wide, failed }]) => html`<${Figure} now=${format(row.now[name])} before=${format(row.before[name])} wide=${wide}
      isFailed=${failed && (row.now[name] ?? 0) > 0} target=${link(failed ? [IS_ERROR] : [], sort)} />`)}
  </tr>`;
}

/** A figure above that of the period before. @param {{now: string, before: string, target: string, wide?: boolean, isFailed?: boolean}} props */
function Figure({ now, before, target, wide = false, isFailed = false }) {
  return html`<td class="numeric ${wide ? 'wide' : ''}">${now ? html`<a class=${isFailed ? 'error-text' : ''} href=${target}>${now}</a>` : html`<span class="soft">–</span>`}
    ${' '}<small class="soft" title="In the period before">${before || '–'}</small></td>`;
}
