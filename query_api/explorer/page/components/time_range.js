/**
 * The time range of a view. The address holds `oldest` and `newest` as the API takes them: a time, or one relative to
 * now such as `-1h`; `oldest=all` is all time. Without either, a list chooses: see `DefaultRange`.
 */
import { html } from 'htm/preact';
import { param, setParams } from '../app/address.js';
import { localTime } from '../app/format.js';
import { Menu } from './menu.js';

const PRESETS = [
  ['-15m', 'Last 15 minutes'], ['-1h', 'Last hour'], ['-24h', 'Last 24 hours'], ['-7d', 'Last 7 days'],
  ['-30d', 'Last 30 days'], ['all', 'All time'],
];
/** The `oldest` of an address that has no beginning. */
export const ALL_TIME = 'all';
const UNITS_MS = /** @type {Record<string, number>} */ ({ s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 });
const UNIT_NAMES = /** @type {Record<string, string>} */ ({ s: 'seconds', m: 'minutes', h: 'hours', d: 'days', w: 'weeks' });

/** The `oldest` and `newest` of the address, for `windowing`. */
export function timeRange() {
  const oldest = param('oldest');
  return { oldest: oldest && oldest !== ALL_TIME ? oldest : undefined, newest: param('newest') || undefined };
}

/**
 * The range in milliseconds since 1970; `null` where it is open.
 * @param {{oldest?: string, newest?: string}} range
 */
export function rangeMs({ oldest, newest }) {
  return { from: timeMs(oldest), to: timeMs(newest) };
}

/**
 * The range as times that stay: relative ones count from now, and an open end is now.
 * @param {{oldest?: string, newest?: string}} range
 */
export function fixedRange({ oldest, newest }) {
  const text = (/** @type {number | null} */ time) => (time === null ? undefined : new Date(time).toISOString());
  return { oldest: text(timeMs(oldest)), newest: text(timeMs(newest) ?? Date.now()) };
}

/** @param {string | undefined} text */
function timeMs(text) {
  if (!text) return null;
  if (text === 'now') return Date.now();
  const relative = /^-(\d+)([smhdw])$/.exec(text);
  if (relative) return Date.now() - Number(relative[1]) * (UNITS_MS[relative[2] ?? ''] ?? 0);
  const time = new Date(text).getTime();
  return Number.isNaN(time) ? null : time;
}

export function TimeRange() {
  const { oldest, newest } = timeRange();
  const preset = newest ? undefined : PRESETS.find(([value]) => value === (oldest ?? ALL_TIME));
  const label = preset ? preset[1] : `${nameOf(oldest) || 'the beginning'} – ${nameOf(newest) || 'now'}`;
  return html`<${Menu} label=${label} title="Time range" class="time-range">
    ${(/** @type {() => void} */ close) => html`
      ${PRESETS.map(([value, name]) => html`<button
        class="item" aria-pressed=${preset?.[0] === value}
        onClick=${() => { setParams({ oldest: value, newest: null }); close(); }}>${name}</button>`)}
      <form class="custom" onSubmit=${(/** @type {SubmitEvent} */ event) => { event.preventDefault(); apply(event); close(); }}>
        <label>From <input type="datetime-local" name="oldest" step="1" value=${inputValue(oldest)} /></label>
        <label>To <input type="datetime-local" name="newest" step="1" value=${inputValue(newest)} /></label>
        <button class="primary">Apply</button>
      </form>`}
  </${Menu}>`;
}

/** A time in words: `12 hours ago` for `-12h`. @param {string | undefined} text */
function nameOf(text) {
  const [, count, unit = ''] = /^-(\d+)([smhdw])$/.exec(text ?? '') ?? [];
  return count ? `${count} ${UNIT_NAMES[unit]} ago` : localTime(text);
}

/** @param {SubmitEvent} event */
function apply(event) {
  const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
  const time = (/** @type {string} */ name) => {
    const text = String(form.get(name) ?? '');
    return text ? new Date(text).toISOString() : null;
  };
  setParams({ oldest: time('oldest') ?? ALL_TIME, newest: time('newest') });
}

/** @param {string | undefined} text */
function inputValue(text) {
  const time = timeMs(text);
  if (time === null) return '';
  return new Date(time - new Date(time).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
