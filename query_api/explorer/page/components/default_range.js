/** The time range of a list whose address names none: the last 24 hours if something matches in them, else all time. */
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { param, setParams } from '../app/address.js';
import { ApiError, post } from '../app/api.js';
import { useLoaded } from '../app/loading.js';
import { ErrorNotice } from './notices.js';
import { ALL_TIME } from './time_range.js';

const RECENT = '-24h';
const UNAUTHORIZED = 401;

/** Whether the address names a time range. */
export function hasRange() {
  return param('oldest') !== null || param('newest') !== null;
}

/**
 * Chooses a time range and writes it into the address, so that the address holds the whole view.
 * @param {{filter: import('../app/filter.js').Filter}} props
 */
export function DefaultRange({ filter }) {
  const loaded = useLoaded(async (abort) => {
    const answer = await post('spans/query', { filtering: filter, windowing: { oldest: RECENT, limit: 1 } }, abort);
    return answer.count > 0 || answer.complete === false ? RECENT : ALL_TIME;
  }, []);
  const { data, error } = loaded;
  const isRefused = error instanceof ApiError && error.status === UNAUTHORIZED; // the page asks for a key
  useEffect(() => {
    // A filter that is wrong: the list shows the error at its place.
    if (data || (error && !isRefused)) setParams({ oldest: data ?? ALL_TIME }, { replace: true });
  }, [data, error]);
  if (error && isRefused) return html`<${ErrorNotice} error=${error} retry=${loaded.reload} />`;
  return html`<p class="loading" role="status">Loading…</p>`;
}
