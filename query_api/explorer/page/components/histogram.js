/** Counts and errors over time, as bars. Dragging over them zooms into a time range. */
import { html } from 'htm/preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { setParams } from '../app/address.js';
import { dayOf } from '../app/format.js';
import { colorOf, theme } from '../app/theme.js';

const HEIGHT = 92;
const DAY_S = 86_400;

/** @typedef {{at: number, count: number, errors: number}} Bucket  `at` in seconds since 1970. */

/** @param {{buckets: Bucket[], seconds: number, from: number | null, to: number | null}} props  Bounds in seconds. */
export function Histogram({ buckets, seconds, from, to }) {
  const root = useRef(/** @type {HTMLDivElement | null} */ (null));
  const appearance = theme.value;
  useEffect(() => {
    const element = root.current;
    if (!element || buckets.length === 0) return undefined;
    const plot = new uPlot(options(element, seconds, from, to), /** @type {any} */ (columns(buckets)), element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [buckets, seconds, appearance]);
  const total = buckets.reduce((sum, { count }) => sum + count, 0);
  const errors = buckets.reduce((sum, bucket) => sum + bucket.errors, 0);
  return html`<div class="histogram" ref=${root} role="img"
    aria-label="${total} spans over time, ${errors} with an error. Drag to zoom."></div>`;
}

/** @param {Bucket[]} buckets */
function columns(buckets) {
  return [buckets.map(({ at }) => at), buckets.map(({ count }) => count), buckets.map(({ errors }) => errors)];
}

/**
 * @param {HTMLElement} element
 * @param {number} seconds
 * @param {number | null} from
 * @param {number | null} to
 */
function options(element, seconds, from, to) {
  const color = (/** @type {string} */ name) => colorOf(element, name);
  const bars = uPlot.paths.bars?.({ size: [0.9, 40], align: 1 });
  const axis = { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui' };
  return /** @type {any} */ ({
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    scales: {
      x: { range: (/** @type {any} */ _plot, /** @type {number} */ min, /** @type {number} */ max) => [from ?? min, to ?? max + seconds] },
      y: { range: (/** @type {any} */ _plot, /** @type {number} */ _min, /** @type {number} */ max) => [0, Math.max(1, max * 1.1)] },
    },
    axes: [{ ...axis, grid: { show: false }, size: 22, space: 90, values: timeLabels }, { ...axis, label: 'Spans', labelSize: 16, labelFont: axis.font, size: 44, space: 22, incrs: [1, 2, 5].flatMap((step) => [1, 10, 100, 1e3, 1e4, 1e5, 1e6].map((ten) => step * ten)).toSorted((a, b) => a - b) }],
    series: [
      {},
      { fill: color('--bar'), stroke: 'transparent', paths: bars, points: { show: false } },
      { fill: color('--error'), stroke: 'transparent', paths: bars, points: { show: false } },
    ],
    hooks: { setSelect: [zoom] },
  });
}

/** Texts of an axis of time. @param {uPlot} _plot @param {number[]} splits */
export function timeLabels(_plot, splits) {
  const isLong = (splits.at(-1) ?? 0) - (splits[0] ?? 0) > 2 * DAY_S;
  return splits.map((at, index) => {
    const date = new Date(at * 1000);
    if (isLong) return dayOf(date);
    const clock = date.toLocaleTimeString('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
    const before = splits[index - 1];
    const isNewDay = before === undefined || new Date(before * 1000).getDate() !== date.getDate();
    const isToday = date.toDateString() === new Date().toDateString();
    return isNewDay && !(isToday && before === undefined) ? `${dayOf(date)} ${clock}` : clock;
  });
}

/** Make what was dragged over the time range of the address. @param {uPlot} plot */
export function zoom(plot) {
  if (plot.select.width < 4) return;
  const time = (/** @type {number} */ position) => new Date(plot.posToVal(position, 'x') * 1000).toISOString();
  setParams({ oldest: time(plot.select.left), newest: time(plot.select.left + plot.select.width) });
}
