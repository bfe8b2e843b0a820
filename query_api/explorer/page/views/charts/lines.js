/** Lines over time, one for each group. Dragging over them zooms into a time range. */
import { html } from 'htm/preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { colorOf, theme } from '../../app/theme.js';
import { timeLabels, zoom } from '../../components/histogram.js';

const HEIGHT = 300;

/** @typedef {{name: string, values: (number | null)[]}} Line */

/** @param {{times: number[], lines: Line[], format: (value: number) => string, label: string}} props  Times in seconds since 1970. */
export function Lines({ times, lines, format, label }) {
  const root = useRef(/** @type {HTMLDivElement | null} */ (null));
  const appearance = theme.value;
  useEffect(() => {
    const element = root.current;
    if (!element) return undefined;
    const plot = new uPlot(options(element, lines, format), /** @type {any} */ ([times, ...lines.map(({ values }) => values)]), element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [times, lines, appearance]);
  return html`<div class="lines" ref=${root} role="img" aria-label=${label}></div>`;
}

/** @param {HTMLElement} element @param {Line[]} lines @param {(value: number) => string} format */
function options(element, lines, format) {
  const color = (/** @type {string} */ name) => colorOf(element, name);
  const axis = { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui' };
  return /** @type {any} */ ({
    width: element.clientWidth, height: HEIGHT, legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, setScale: false } },
    scales: { y: { range: (/** @type {any} */ _plot, /** @type {number} */ _min, /** @type {number} */ max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [{ ...axis, grid: { show: false }, size: 26, space: 90, values: timeLabels }, { ...axis, size: 70, values: (/** @type {any} */ _plot, /** @type {number[]} */ splits) => splits.map((value) => format(value)) }],
    series: [{}, ...lines.map((_, place) => ({ stroke: color(`--series-${place + 1}`), width: 2, spanGaps: true, points: { show: lines[0] && lines[0].values.length < 40, size: 5, fill: color(`--series-${place + 1}`) } }))],
    hooks: { setSelect: [zoom] },
  });
}
