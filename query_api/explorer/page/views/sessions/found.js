/** The sessions of a list: those with the latest activity, or those of which a trace matches a filter, and what they took. */
import { post } from '../../app/api.js';
import { totalsBySession } from './totals.js';

export const SESSIONS_MAX = 500;

const SESSION = 'session';

/**
 * @typedef {{id: string, turns: number, last: string, totals?: import('./totals.js').Totals | null}} Session
 *   `totals` are missing if they do not come with the list (`missing.js`), and `null` if its traces are too many to add up. */

/**
 * The sessions with the latest activity first, and what each took in the time range. A turn is a trace. A session matches
 * if one of its traces does, also by a span that does not name the session.
 * @param {import('../../app/filter.js').Filter} filter
 * @param {object} windowing
 * @param {AbortSignal} abort
 * @returns {Promise<{rows: Session[], complete: boolean}>}
 */
export async function sessionsOf(filter, windowing, abort) {
  if (filter.conditions.length === 0) return sessionsWith({ field: SESSION, operator: 'exists' }, windowing, abort);
  const { bySession, complete } = await totalsBySession(filter, windowing, abort);
  const latest = [...bySession].sort(([, a], [, b]) => (a.last < b.last ? 1 : -1)).slice(0, SESSIONS_MAX);
  if (latest.length === 0) return { rows: [], complete };
  const matching = await sessionsWith({ field: SESSION, operator: 'in', value: latest.map(([id]) => id) }, windowing, abort);
  return { rows: matching.rows, complete: complete && matching.complete };
}

/**
 * @param {import('../../app/filter.js').Condition} condition  On the session.
 * @param {object} windowing
 * @param {AbortSignal} abort
 * @returns {Promise<{rows: Session[], complete: boolean}>}
 */
async function sessionsWith(condition, windowing, abort) {
  const filtering = { conditions: [condition] };
  const groups = post('spans/groups/query', {
    filtering,
    windowing,
    group_by: [SESSION],
    measures: [{ of: 'trace_id', as: ['uniq'] }, { of: 'start_time', as: ['max'] }],
    order_by: { of: 'start_time', as: 'max' },
    limit: SESSIONS_MAX,
  }, abort);
  const [answer, { bySession }] = await Promise.all([groups, totalsBySession(filtering, windowing, abort)]);
  const rows = answer.groups.map((/** @type {any} */ { by, values }) => {
    const [id, turns] = [String(by[SESSION]), values.trace_id.uniq];
    const totals = bySession.get(id); // traces of it that also belong to another session are counted there
    return { id, turns, last: values.start_time.max, ...(totals && totals.turns >= turns && { totals }) };
  });
  return { rows, complete: answer.complete !== false };
}
