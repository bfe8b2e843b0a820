/**
 * New rows as they arrive, by the feed. Spans are the rows of the feed itself; for traces the feed says which traces
 * changed, and their summaries are read. While the pointer is over the list, new rows are collected and not shown.
 * A request that the API refuses stops it; one that may succeed later is repeated.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, keys, post } from '../../app/api.js';

const WAIT_S = 20;
const ROWS_MAX = 500;
const FEED_LIMIT = 200;
const RETRY_MS = 3_000;

/** Refusals that end by themselves: the request took too long, or there were too many. */
const PASSING = [408, 429];

/**
 * @param {{kind: {name: string, path: string, member: string}, filter: object, more: object, isOn: boolean, keyOf: (row: any) => string, key: string}} options
 */
export function useLive({ kind, filter, more, isOn, keyOf, key }) {
  const [rows, setRows] = useState(/** @type {any[]} */ ([]));
  const [paused, setPaused] = useState(0);
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [round, setRound] = useState(0);
  const waiting = useRef(/** @type {any[]} */ ([]));
  const isPaused = useRef(false);
  const arrivedAt = useRef(/** @type {Map<string, number>} */ (new Map()));

  /** @param {any[]} arrived  Newest first. */
  const show = (arrived) => {
    for (const row of arrived) arrivedAt.current.set(keyOf(row), Date.now());
    const keys = new Set(arrived.map(keyOf));
    setRows((before) => [...arrived, ...before.filter((row) => !keys.has(keyOf(row)))].slice(0, ROWS_MAX));
  };
  useEffect(() => {
    setRows([]);
    setPaused(0);
    setError(null);
    waiting.current = [];
    if (!isOn) return undefined;
    const controller = new AbortController();
    follow(kind, { filter, more }, controller.signal, (arrived) => {
      if (!isPaused.current) return show(arrived);
      const keys = new Set(arrived.map(keyOf));
      waiting.current = [...arrived, ...waiting.current.filter((row) => !keys.has(keyOf(row)))].slice(0, ROWS_MAX);
      return setPaused(waiting.current.length);
    }).catch((refusal) => { if (!controller.signal.aborted) setError(refusal); });
    return () => controller.abort();
  }, [key, keys.value, isOn, round]);
  return {
    rows: isOn ? rows : [],
    paused,
    error,
    retry: () => setRound((number) => number + 1),
    pause: () => { isPaused.current = isOn; },
    resume: () => {
      isPaused.current = false;
      if (waiting.current.length) show(waiting.current);
      waiting.current = [];
      setPaused(0);
    },
    isNew: (/** @type {string} */ rowKey) => Date.now() - (arrivedAt.current.get(rowKey) ?? 0) < 2_000,
  };
}

/**
 * Return when it is aborted; throw what the API refuses for good.
 * @param {{name: string, path: string, member: string}} kind
 * @param {{filter: object, more: object}} query
 * @param {AbortSignal} abort
 * @param {(rows: any[]) => void} arrive
 */
async function follow(kind, { filter, more }, abort, arrive) {
  let next = /** @type {string | undefined} */ (undefined);
  while (!abort.aborted) {
    try {
      const windowing = { by: 'created_at', from: 'now', limit: FEED_LIMIT, next, wait_s: next ? WAIT_S : undefined };
      if (next) delete (/** @type {any} */ (windowing).from);
      const page = await post('spans/query', { filtering: filter, windowing }, abort);
      const rows = kind.name === 'spans' || page.spans.length === 0 ? page.spans.toReversed() : await summaries(kind, page.spans, more, abort);
      next = page.windowing.next; // not before the summaries are there: what fails is asked for again
      if (rows.length) arrive(rows);
    } catch (error) {
      if (abort.aborted) return;
      if (isFinal(error)) throw error;
      await new Promise((resolve) => { setTimeout(resolve, RETRY_MS); });
    }
  }
}

/** Whether the same request would be refused again. @param {unknown} error */
function isFinal(error) {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && !PASSING.includes(error.status);
}

/**
 * @param {{path: string, member: string}} kind
 * @param {any[]} spans
 * @param {object} more
 * @param {AbortSignal} abort
 */
async function summaries(kind, spans, more, abort) {
  const ids = [...new Set(spans.map((span) => span.trace_id))];
  const filtering = { conditions: [{ field: 'trace_id', operator: 'in', value: ids }] };
  const answer = await post(kind.path, { filtering, windowing: { limit: ids.length }, ...more }, abort);
  return answer[kind.member] ?? [];
}
