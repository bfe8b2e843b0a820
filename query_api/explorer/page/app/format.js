/** Numbers and times for people. Every function returns a short text; `''` where there is nothing to show. */

const whole = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const DAY_MS = 86_400_000;
const COST_MIN = 1e-8;

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null || !Number.isFinite(ms)) return '';
  if (ms < 1) return `${trim(ms * 1000, 0)} µs`;
  if (ms < 1000) return `${trim(ms, ms < 10 ? 2 : ms < 100 ? 1 : 0)} ms`;
  if (ms < 60_000) return `${trim(ms / 1000, 2)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor(ms / 1000) % 60} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor(ms / 60_000) % 60} min`;
}

/** @param {number | null | undefined} count */
export function number(count) {
  return count == null ? '' : whole.format(count);
}

/** Below a list that has no further rows. @param {number} count */
export function allShown(count) {
  return count === 1 ? 'This is the only one.' : `All ${number(count)} are shown.`;
}

/** @param {number | null | undefined} count */
export function short(count) {
  return count == null ? '' : count < 10_000 ? whole.format(count) : compact.format(count);
}

/**
 * US dollars, with enough digits to see a cheap call.
 * @param {number | null | undefined} usd
 */
export function cost(usd) {
  if (usd == null) return '';
  if (usd === 0) return '$0';
  if (Math.abs(usd) < COST_MIN) return `<$${COST_MIN.toFixed(8)}`;
  const digits = Math.abs(usd) >= 1 ? 2 : Math.min(8, 2 - Math.floor(Math.log10(Math.abs(usd))));
  return `$${usd.toFixed(digits)}`;
}

/** @param {number | null | undefined} count */
export function bytes(count) {
  if (count == null) return '';
  if (count < 1024) return `${count} B`;
  return count < 1024 ** 2 ? `${trim(count / 1024, 1)} KiB` : `${trim(count / 1024 ** 2, 1)} MiB`;
}

/**
 * The local time; the day is added unless it is today.
 * @param {string | number | null | undefined} time
 * @param {{milliseconds?: boolean}} [options]
 */
export function localTime(time, { milliseconds = false } = {}) {
  if (time == null || time === '') return '';
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const exact = milliseconds ? `${clock}.${String(date.getMilliseconds()).padStart(3, '0')}` : clock;
  const isToday = Math.abs(Date.now() - date.getTime()) < DAY_MS && date.getDate() === new Date().getDate();
  return isToday ? exact : `${dayOf(date)} ${exact}`;
}

/** The day in the local zone; the year is added unless it is this one. @param {Date} date */
export function dayOf(date) {
  const month = date.toLocaleString('en', { month: 'short' });
  const year = date.getFullYear() === new Date().getFullYear() ? '' : ` ${date.getFullYear()}`;
  return `${date.getDate()} ${month}${year}`;
}

/**
 * How long ago a time is: `12 s ago`.
 * @param {string | number | null | undefined} time
 */
export function ago(time) {
  if (time == null || time === '') return '';
  const seconds = Math.max(0, (Date.now() - new Date(time).getTime()) / 1000);
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/**
 * @param {number} value
 * @param {number} digits
 */
function trim(value, digits) {
  return String(Number(value.toFixed(digits)));
}

/** @param {number} value */
function two(value) {
  return String(value).padStart(2, '0');
}
