/** The first question and the last answer of sessions, which come after the rows: of their first and their last trace. */
import { useEffect, useState } from 'preact/hooks';
import { post } from '../../app/api.js';

const SESSIONS_TOGETHER = 50;

/** @typedef {{question?: string, answer?: string}} Texts  By trace id: what was asked and answered in it. */

/**
 * @param {import('./found.js').Session[]} sessions  In the order in which they are shown.
 * @returns {Map<string, Texts>}  Of the traces that were read so far.
 */
export function useTexts(sessions) {
  const [texts, setTexts] = useState(() => /** @type {Map<string, Texts>} */ (new Map()));
  useEffect(() => {
    const controller = new AbortController();
    readTexts(sessions, controller.signal, (read) => setTexts((before) => new Map([...before, ...read]))).catch(() => { /* the list is whole without them */ });
    return () => controller.abort();
  }, [sessions]);
  return texts;
}

/**
 * @param {import('./found.js').Session[]} sessions
 * @param {AbortSignal} abort
 * @param {(read: [string, Texts][]) => void} add
 */
async function readTexts(sessions, abort, add) {
  for (let first = 0; first < sessions.length; first += SESSIONS_TOGETHER) {
    const totals = sessions.slice(first, first + SESSIONS_TOGETHER).flatMap(({ totals: of }) => (of ? [of] : []));
    const ids = [...new Set(totals.flatMap(({ firstTrace, lastTrace }) => [firstTrace, lastTrace]))];
    if (ids.length === 0) continue;
    const filtering = { conditions: [{ field: 'trace_id', operator: 'in', value: ids }] };
    const answer = await post('traces/summaries/query', { filtering, windowing: { limit: ids.length }, include_texts: true }, abort);
    add(answer.summaries.map((/** @type {any} */ { trace_id: id, question, answer: text }) => [id, { question, answer: text }]));
  }
}
