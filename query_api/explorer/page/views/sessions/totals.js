/**
 * What sessions took. Often only some spans of a trace carry the session id, and the model calls do not: the figures are
 * those of the whole traces of a session, each model call counted once.
 */
import { post } from '../../app/api.js';

const PAGE = 5_000;
const PAGES_MAX = 2;

/** @typedef {{turns: number, spans: number, errors: number, tokens: number, cost: number, first: string, last: string,
 *   firstTrace: string, lastTrace: string, lastStart: string, user: string | undefined}} Totals  `user` is that of the latest trace that names one. */

/**
 * Add up the traces that have a span that matches, by session. A trace counts to the one session that its summary names.
 * @param {object} filtering
 * @param {object} windowing
 * @param {AbortSignal} abort
 * @param {string} [sessionId]  All traces count to this session.
 * @returns {Promise<{bySession: Map<string, Totals>, complete: boolean}>}  `complete` is false if there are more traces.
 */
export async function totalsBySession(filtering, windowing, abort, sessionId) {
  /** @type {Map<string, Totals>} */
  const bySession = new Map();
  let next = /** @type {string | undefined} */ (undefined);
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await post('traces/summaries/query', { filtering, windowing: { ...windowing, limit: PAGE, next } }, abort);
    for (const trace of answer.summaries) {
      const id = sessionId ?? trace.session_id;
      if (id !== undefined) bySession.set(id, plus(bySession.get(id), trace));
    }
    next = answer.windowing?.next;
    if (!next) return { bySession, complete: answer.complete !== false };
  }
  return { bySession, complete: false };
}

/** @param {Totals | undefined} totals @param {any} trace @returns {Totals} */
function plus(totals, { trace_id: id, spans_count: spans, errors_count: errors, tokens = 0, cost = 0, start_time: start, end_time: end, user_id: user }) {
  const one = { turns: 1, spans, errors, tokens, cost, first: start, last: end, firstTrace: id, lastTrace: id, lastStart: start, user };
  if (!totals) return one;
  const [isFirst, isLast] = [start < totals.first, start > totals.lastStart];
  return {
    turns: totals.turns + 1, spans: totals.spans + spans, errors: totals.errors + errors, tokens: totals.tokens + tokens, cost: totals.cost + cost,
    first: isFirst ? start : totals.first, firstTrace: isFirst ? id : totals.firstTrace, last: end > totals.last ? end : totals.last,
    lastStart: isLast ? start : totals.lastStart, lastTrace: isLast ? id : totals.lastTrace, user: (isLast && user) || (totals.user ?? user),
  };
}
