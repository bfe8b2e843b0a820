/** The first question and the last answer of sessions, which come after the rows: of their first and their last trace. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { post } from '../../app/api.js';

const TRACES_TOGETHER = 100;

/** @typedef {{question?: string, answer?: string}} Texts  By trace id: what was asked and answered in it. */

/**
 * @param {readonly import('./found.js').Session[]} sessions  In the order in which they are shown.
 * @returns {Map<string, Texts>}  Of the traces that were read so far.
 */
export function useTexts(sessions) {
  const [texts, setTexts] = useState(() => /** @type {Map<string, Texts>} */ (new Map()));
  const reader = useMemo(() => reading((read) => setTexts((before) => new Map([...before, ...read]))), []);
  useEffect(() => reader.abort, []);
  useEffect(() => reader.want(sessions.flatMap(({ totals }) => (totals ? [totals.firstTrace, totals.lastTrace] : []))), [sessions]);
  return texts;
}

/**
 * Reads the texts of traces, of some of them at a time. The list is whole without those of a request that fails; they are asked for again with the next ones.
 * @param {(read: [string, Texts][]) => void} add
 */
function reading(add) {
  const controller = new AbortController();
  const asked = new Set();
  let wanted = /** @type {string[]} */ ([]);
  let isReading = false;
  const read = async () => {
    isReading = true;
    while (wanted.length > 0) {
      const ids = wanted.splice(0, TRACES_TOGETHER);
      for (const id of ids) asked.add(id);
      const filtering = { conditions: [{ field: 'trace_id', operator: 'in', value: ids }] };
      const answer = await post('traces/summaries/query', { filtering, windowing: { limit: ids.length }, include_texts: true }, controller.signal)
        .catch((error) => { for (const id of ids) asked.delete(id); throw error; });
      add(answer.summaries.map((/** @type {any} */ { trace_id: id, question, answer: text }) => [id, { question, answer: text }]));
    }
    isReading = false;
  };
  return {
    abort: () => controller.abort(),
    /** @param {string[]} ids  All that are wanted now, the most wanted first. */
    want: (ids) => {
      wanted = [...new Set(ids)].filter((id) => !asked.has(id));
      if (!isReading) read().catch(() => { isReading = false; });
    },
  };
}
