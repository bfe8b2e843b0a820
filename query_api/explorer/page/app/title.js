/** What the tab of the browser says: what is open, which view it is, and whose. A view says what is open by `useTitle`. */
import { computed, signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import { address, viewName } from './address.js';

const LENGTH_MAX = 80;

/** Views that also show one thing alone, and its name. */
const SINGLE = /** @type {Record<string, string>} */ ({ traces: 'Trace', sessions: 'Session', users: 'User', applications: 'Application', queries: 'Query' });

const opened = signal('');

/** @param {string | null | undefined} text  Of the view that calls it; empty is the view as a whole. */
export function useTitle(text) {
  useLayoutEffect(() => {
    opened.value = (text ?? '').replace(/\s+/g, ' ').trim();
    return () => { opened.value = ''; };
  }, [text]);
}

/** The name of a page in words: `Traces`, `Dead letters`, and of one thing alone `Trace`. @param {readonly string[]} path */
export function pageName([view = '', thing]) {
  const single = thing === undefined ? undefined : SINGLE[view];
  return single ?? `${view.slice(0, 1).toUpperCase()}${view.slice(1).replaceAll('-', ' ')}`;
}

export const title = computed(() => {
  const text = opened.value || (address.value.path[1] ?? ''); // the id or slug, also while a view loads
  const what = text.length > LENGTH_MAX ? `${text.slice(0, LENGTH_MAX)}…` : text;
  return [what, pageName([viewName.value, ...address.value.path.slice(1)]), 'Clearspan'].filter(Boolean).join(' · ');
});
