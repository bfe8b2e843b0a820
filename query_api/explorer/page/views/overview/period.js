/**
 * The time that the overview shows, and the same hours before it. The address holds `day` (a day in the local zone) or
 * `last` (`24h`, `7d`, `30d`); without either it is today until now.
 */
import { dayOf } from '../../app/format.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Lengths that end now: hours, the name, and the buckets of their lines. */
export const LENGTHS = /** @type {Record<string, [number, string, string, number]>} */ ({
  '24h': [24, 'Last 24 hours', '1h', HOUR_MS],
  '7d': [7 * 24, 'Last 7 days', '6h', 6 * HOUR_MS],
  '30d': [30 * 24, 'Last 30 days', '1d', DAY_MS],
});

/** A length of the address; none if the address says something else. @param {string | null} last */
export function lengthOf(last) {
  return last !== null && Object.hasOwn(LENGTHS, last) ? LENGTHS[last] : undefined;
}

/** @typedef {{from: number, to: number}} Range  Milliseconds since 1970; `to` is excluded. */
/**
 * @typedef {Range & {title: string, before: Range & {title: string}, interval: string, bucketMs: number}} Period
 */

/**
 * @param {{last: string | null, day: string | null}} params  Of the address.
 * @param {number} now
 * @returns {Period}
 */
export function periodOf({ last, day }, now) {
  const chosen = lengthOf(last);
  if (chosen) {
    const [hours, title, interval, bucketMs] = chosen;
    const length = hours * HOUR_MS;
    return { from: now - length, to: now, title, before: { from: now - 2 * length, to: now - length, title: `the ${title.slice(5)} before` }, interval, bucketMs };
  }
  const today = startOfDay(now, 0);
  const from = readDay(day) ?? today;
  const to = Math.min(startOfDay(from, 1), Math.max(now, from + 1));
  const isToday = from === today;
  const before = { from: startOfDay(from, -1), to: Math.min(startOfDay(to, 0) === to ? from : startOfDay(from, -1) + (to - from), from) };
  const dayBefore = dayOf(new Date(before.from));
  const [interval, bucketMs] = bucketsOf(to - from);
  return {
    from, to, title: isToday ? 'Today' : dayOf(new Date(from)),
    before: { ...before, title: isToday ? 'yesterday at the same hours' : dayBefore }, interval, bucketMs,
  };
}

/** The buckets of a part of a day. @param {number} lengthMs  @returns {[string, number]} */
function bucketsOf(lengthMs) {
  if (lengthMs < 2 * HOUR_MS) return ['5m', HOUR_MS / 12];
  return lengthMs < 8 * HOUR_MS ? ['15m', HOUR_MS / 4] : ['1h', HOUR_MS];
}

/** A day as the address holds it. @param {number} time */
export function dayText(time) {
  const date = new Date(time);
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, '0')}-${String(date.getDate()).padStart(2, '0')}`;
}

/**
 * Midnight in the local zone, some days later; a day may have 23 or 25 hours.
 * @param {number} time
 * @param {number} days
 */
export function startOfDay(time, days) {
  const date = new Date(time);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days).getTime();
}

/** @param {string | null} text */
function readDay(text) {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text ?? '') ?? [];
  return year ? new Date(Number(year), Number(month) - 1, Number(day)).getTime() : null;
}

/** A range as `windowing` takes it. @param {Range} range */
export function windowOf({ from, to }) {
  return { oldest: new Date(from).toISOString(), newest: new Date(to).toISOString() };
}
