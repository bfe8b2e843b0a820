/** Today and yesterday: what was asked, what failed, what it cost and how long it took. Every figure leads to its spans. */
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { href, param, setParams } from '../../app/address.js';
import { post } from '../../app/api.js';
import { localTime } from '../../app/format.js';
import { useLoaded } from '../../app/loading.js';
import { FindField } from '../../components/filter_bar/filter_bar.js';
import { NothingYet } from '../../components/notices.js';
import { Breakdown } from './breakdown.js';
import { IS_REQUEST, OF_REQUESTS, OF_SPANS } from './figures.js';
import { dayText, lengthOf, LENGTHS, periodOf, startOfDay, windowOf } from './period.js';
import { Tiles } from './tiles.js';

/** @typedef {import('./breakdown.js').Part} Part */
/** @typedef {import('./period.js').Period} Period */

/** @type {Part[]} */
const PARTS = [
  { title: 'Models', noun: 'Calls', by: { field: 'model' }, list: 'spans', measures: OF_SPANS, conditions: [],
    none: 'No span of this time names a model.' },
  { title: 'Services', noun: 'Requests', by: { field: 'service' }, list: 'traces', measures: OF_REQUESTS, conditions: [IS_REQUEST],
    none: 'No request of this time names its service. SDKs of OpenTelemetry take it from OTEL_SERVICE_NAME.' },
  { title: 'Applications', noun: 'Requests', by: { field: 'attributes', key: 'ag.references.application.slug' }, list: 'traces', measures: OF_REQUESTS, conditions: [IS_REQUEST],
    hrefOf: (slug) => href(['applications', slug]),
    none: 'No request of this time refers to an application. Set the attribute ag.references.application.slug.' },
  { title: 'Users', noun: 'Requests', by: { field: 'user' }, list: 'traces', measures: OF_REQUESTS, conditions: [IS_REQUEST],
    hrefOf: (id) => href(['users', id]), all: () => href(['users']),
    none: 'No request of this time names a user. Set the attribute user.id on the first span of a request.' },
];

export function OverviewView() {
  const [now, setNow] = useState(Date.now);
  const [settled, setSettled] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const [last, day] = [param('last'), param('day')];
  const period = useMemo(() => periodOf({ last, day }, now), [last, day, now]);
  const latest = useLoaded(async (abort) => {
    const { spans = [] } = await post('spans/query', { windowing: { limit: 1 } }, abort);
    return spans[0]?.start_time ?? '';
  }, [now]);
  return html`<div class="page overview">
    <div class="page-head"><h1>${period.title}</h1><span class="soft">compared with ${period.before.title}</span>
      <div class="controls"><${Choice} period=${period} last=${last} now=${now} />
        <button title="Load the figures again" onClick=${() => setNow(Date.now())}>Refresh</button></div></div>
    ${latest.data !== '' && html`<${FindField} range=${windowOf(period)} />`}
    ${latest.data === ''
      ? html`<${NothingYet} />`
      : html`<${Tiles} period=${period} /><${Latest} period=${period} start=${latest.isOld ? null : latest.data} />
        ${PARTS.map((part, place) => html`<${Breakdown} key=${part.title} part=${part} period=${period} isHidden=${!PARTS.slice(0, place).every(({ title }) => settled.has(title))}
          settle=${() => setSettled((before) => new Set([...before, part.title]))} />`)}`}
  </div>`;
}

/** @param {{period: Period, last: string | null, now: number}} props */
function Choice({ period, last, now }) {
  const isLength = lengthOf(last) !== undefined;
  const move = (/** @type {number} */ days) => {
    const chosen = startOfDay(period.from, days);
    setParams({ last: null, day: chosen === startOfDay(now, 0) ? null : dayText(chosen) });
  };
  const isToday = period.from === startOfDay(now, 0);
  return html`
    <button aria-label="The day before" disabled=${isLength} onClick=${() => move(-1)}>‹</button>
    <select aria-label="Time" value=${isLength ? last : 'day'} onChange=${(/** @type {any} */ event) => setParams({ last: event.target.value === 'day' ? null : event.target.value, day: null })}>
      <option value="day">${isLength ? 'Today' : period.title}</option>
      ${Object.entries(LENGTHS).map(([value, [, title]]) => html`<option value=${value}>${title}</option>`)}
    </select>
    <button aria-label="The day after" disabled=${isLength || isToday} onClick=${() => move(1)}>›</button>`;
}

/** Where to look if nothing happened in this time. @param {{period: Period, start: string | null}} props  `start` is that of the latest span. */
function Latest({ period, start }) {
  const latest = start ? new Date(start).getTime() : null;
  if (latest === null || latest >= period.before.from) return null;
  return html`<div class="notice" role="status"><p>Nothing happened in this time or before it. The latest span began at ${localTime(latest)}.
    ${' '}<a href=${href(['overview'], { day: dayText(latest) })}>Show that day</a></p></div>`;
}
