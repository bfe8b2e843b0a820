/**
 * What the sessions took whose traces are too many to come with the list: asked for one by one, at most two at a time, those
 * first that were wanted last.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { totalsBySession } from './totals.js';

const PARALLEL_MAX = 2;

/** @typedef {import('./found.js').Session} Session */
/** @typedef {Map<string, import('./totals.js').Totals | null>} Known  By session; `null` if its traces are too many to add up, or the request failed. */

const NOTHING = /** @type {Known} */ (new Map());

/**
 * @param {readonly Session[]} listed
 * @param {{oldest?: string, newest?: string}} windowing
 * @returns {{sessions: readonly Session[], want: (id: string) => void}}  The sessions with what is known by now; `want`
 *   asks for another one.
 */
export function useMissing(listed, windowing) {
  const [found, setFound] = useState({ of: listed, known: /** @type {Known} */ (new Map()) });
  const asker = useMemo(() => { // before rows are drawn, which ask at once
    const controller = new AbortController();
    const add = (/** @type {string} */ id, /** @type {import('./totals.js').Totals | null} */ totals) => setFound(({ of, known }) => ({ of: listed, known: new Map(of === listed ? known : []).set(id, totals) }));
    return { want: asking(windowing, controller.signal, add), abort: () => controller.abort() };
  }, [listed]);
  useEffect(() => asker.abort, [asker]);
  const known = found.of === listed ? found.known : NOTHING;
  const sessions = useMemo(() => listed.map((session) => (session.totals === undefined && known.has(session.id) ? { ...session, totals: known.get(session.id) } : session)), [listed, known]);
  return { sessions, want: asker.want };
}

/**
 * @param {object} windowing
 * @param {AbortSignal} abort
 * @param {(id: string, totals: import('./totals.js').Totals | null) => void} found
 * @returns {(id: string) => void}  Asks once for each session: those that are wanted together in their order, and before
 *   those that were wanted earlier.
 */
function asking(windowing, abort, found) {
  const asked = new Set();
  const waiting = /** @type {string[]} */ ([]);
  let [running, together] = [0, 0]; // `together` are wanted at this moment
  const next = async () => {
    const id = running < PARALLEL_MAX && !abort.aborted ? waiting.shift() : undefined;
    if (id === undefined) return;
    running += 1;
    const filtering = { conditions: [{ field: 'session', operator: 'is', value: id }] };
    const answer = await totalsBySession(filtering, windowing, abort, id).catch(() => null);
    running -= 1;
    if (abort.aborted) return;
    found(id, answer?.complete ? answer.bySession.get(id) ?? null : null);
    next();
  };
  const begin = () => {
    together = 0;
    for (let count = 0; count < PARALLEL_MAX; count += 1) next();
  };
  return (id) => {
    if (asked.has(id)) return;
    asked.add(id);
    if (together === 0) queueMicrotask(begin);
    waiting.splice(together, 0, id);
    together += 1;
  };
}
