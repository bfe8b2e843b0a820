/** Hooks that load data from the API. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { keys } from './api.js';

/**
 * @template T
 * @typedef {{data: T | null, error: Error | null, isLoading: boolean, reload: () => void}} Loaded
 */

/**
 * Load something, and load it again when `inputs` change. Earlier data stays visible until the new data is there.
 * @template T
 * @param {(abort: AbortSignal) => Promise<T>} load
 * @param {unknown[]} inputs
 * @returns {Loaded<T>}
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState(/** @type {Omit<Loaded<T>, 'reload'>} */ ({ data: null, error: null, isLoading: true }));
  const [round, setRound] = useState(0);
  const key = keys.value;
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => ({ ...before, error: null, isLoading: true }));
    load(controller.signal).then(
      (data) => { if (!controller.signal.aborted) setState({ data, error: null, isLoading: false }); },
      (error) => { if (!controller.signal.aborted) setState((before) => ({ ...before, error, isLoading: false })); },
    );
    return () => controller.abort();
  }, [...inputs, key, round]);
  const reload = useCallback(() => setRound((number) => number + 1), []);
  return { ...state, reload };
}

/**
 * @template T
 * @typedef {{rows: T[], next: string | null, complete: boolean}} Page
 */

/**
 * Load a list page by page. `more` loads the next page; it does nothing while a page is loading or after the last one.
 * @template T
 * @param {(next: string | null, abort: AbortSignal) => Promise<Page<T>>} loadPage
 * @param {unknown[]} inputs
 */
export function usePages(loadPage, inputs) {
  const empty = { rows: /** @type {T[]} */ ([]), next: /** @type {string | null} */ (null), complete: true };
  const [state, setState] = useState({ ...empty, error: /** @type {Error | null} */ (null), isLoading: true });
  const [round, setRound] = useState(0);
  const controller = useRef(new AbortController());
  const isLoading = useRef(false);
  const key = keys.value;

  /** @param {string | null} next */
  const load = (next) => {
    const { signal } = controller.current;
    isLoading.current = true;
    setState((before) => ({ ...before, error: null, isLoading: true }));
    loadPage(next, signal).then((page) => {
      if (signal.aborted) return;
      isLoading.current = false;
      const rows = (/** @type {T[]} */ before) => (next === null ? page.rows : [...before, ...page.rows]);
      setState((before) => ({ ...page, rows: rows(before.rows), error: null, isLoading: false }));
    }, (error) => {
      if (signal.aborted) return;
      isLoading.current = false;
      setState((before) => ({ ...before, error, isLoading: false }));
    });
  };
  useEffect(() => {
    controller.current = new AbortController();
    load(null);
    return () => controller.current.abort();
  }, [...inputs, key, round]);
  const more = () => { if (state.next !== null && !isLoading.current && !state.error) load(state.next); };
  const reload = useCallback(() => setRound((number) => number + 1), []);
  return { ...state, more, reload };
}
