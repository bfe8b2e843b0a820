/** A small line of values over time, as large as its box. It repeats what figures say, so that readers of screens skip it. */
import { html } from 'htm/preact';

const [WIDTH, HEIGHT, MARGIN] = [100, 24, 2];

/** @param {{values: (number | null)[] | undefined}} props  `null` where there is no value. */
export function Sparkline({ values = [] }) {
  const most = Math.max(0, ...values.map((value) => value ?? 0));
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.flatMap((value, place) => (value === null ? [] : [`${(place * step).toFixed(1)},${(HEIGHT - MARGIN - (most ? value / most : 0) * (HEIGHT - 2 * MARGIN)).toFixed(1)}`]));
  return html`<svg class="sparkline" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
    ${points.length > 1 && html`<polyline class="area" points="${points[0]?.split(',')[0]},${HEIGHT} ${points.join(' ')} ${points.at(-1)?.split(',')[0]},${HEIGHT}" /><polyline points=${points.join(' ')} />`}
    ${points.length === 1 && html`<circle cx=${points[0]?.split(',')[0]} cy=${points[0]?.split(',')[1]} r="2" />`}
  </svg>`;
}
