/** Hooks that load data from the API. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { keys } from './api.js';

/**
 * @template T
 * @typedef {{data: T | null, error: Error | null, isLoading: boolean, isOld: boolean, reload: () => void}} Loaded
 *   `isOld` while the data is that of other inputs: a view marks it.
 */

/**
 * Attributes of an element that shows data which may be that of other inputs.
 * @param {{isOld: boolean}} loaded
 * @param {string} [className]
 */
export function marksOf({ isOld }, className = '') {
  return { class: `${className} ${isOld ? 'old' : ''}`.trim(), 'aria-busy': String(isOld) };
}

/**
 * Load something, and load it again when `inputs` change. Earlier data stays visible until the new data is there, and is
 * removed if that fails.
 * @template T
 * @param {(abort: AbortSignal) => Promise<T>} load
 * @param {unknown[]} inputs
 * @returns {Loaded<T>}
 */
export function useLoaded(load, inputs) {
  const all = [...inputs, keys.value];
  const [state, setState] = useState({ data: /** @type {T | null} */ (null), of: all, error: /** @type {Error | null} */ (null), isLoading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => ({ ...before, error: null, isLoading: true }));
    load(controller.signal).then((data) => {
      if (!controller.signal.aborted) setState({ data, of: all, error: null, isLoading: false });
    }, (error) => {
      if (controller.signal.aborted) return;
      setState((before) => ({ data: isSame(before.of, all) ? before.data : null, of: all, error, isLoading: false }));
    });
    return () => controller.abort();
  }, [...all, round]);
  const reload = useCallback(() => setRound((number) => number + 1), []);
  const { data, error, isLoading } = state;
  return { data, error, isLoading, isOld: !isSame(state.of, all), reload };
}

/** @param {unknown[]} before @param {unknown[]} now */
function isSame(before, now) {
  return before.every((input, place) => input === now[place]);
}

/**
 * @template T
 * @typedef {{rows: T[], next: string | null, complete: boolean}} Page
 */

/**
 * Load a list page by page. `more` loads the next page; it does nothing while a page is loading or after the last one.
 * Rows of earlier inputs are `isOld` until the first page is there, and are removed if it fails.
 * @template T
 * @param {(next: string | null, abort: AbortSignal) => Promise<Page<T>>} loadPage
 * @param {unknown[]} inputs
 */
export function usePages(loadPage, inputs) {
  const empty = { rows: /** @type {T[]} */ ([]), next: /** @type {string | null} */ (null), complete: true };
  const all = [...inputs, keys.value];
  const [{ of, ...state }, setState] = useState({ ...empty, of: all, error: /** @type {Error | null} */ (null), isLoading: true });
  const [round, setRound] = useState(0);
  const controller = useRef(new AbortController());
  const isLoading = useRef(false);

  /** @param {string | null} next */
  const load = (next) => {
    const { signal } = controller.current;
    isLoading.current = true;
    setState((before) => ({ ...before, error: null, isLoading: true }));
    loadPage(next, signal).then((page) => {
      if (signal.aborted) return;
      isLoading.current = false;
      const rows = (/** @type {T[]} */ before) => (next === null ? page.rows : [...before, ...page.rows]);
      setState((before) => ({ ...page, rows: rows(before.rows), of: all, error: null, isLoading: false }));
    }, (error) => {
      if (signal.aborted) return;
      isLoading.current = false;
      setState((before) => ({ ...(isSame(before.of, all) ? before : { ...empty, of: all }), error, isLoading: false }));
    });
  };
  useEffect(() => {
    controller.current = new AbortController();
    load(null);
    return () => controller.current.abort();
  }, [...all, round]);
  const isOld = !isSame(of, all);
  const more = () => { if (state.next !== null && !isOld && !isLoading.current && !state.error) load(state.next); };
  const reload = useCallback(() => setRound((number) => number + 1), []);
  return { ...state, isOld, more, reload };
}
