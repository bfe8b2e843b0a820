/**
 * Search inside a trace: in the names of its spans, models and services as they are typed, and in all texts of its spans by
 * words, which the API looks for. The address holds what is searched for (`find=refund`).
 */
import { html } from 'htm/preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { param, setParams } from '../../app/address.js';
import { ApiError, post } from '../../app/api.js';
import { number } from '../../app/format.js';
import { useLoaded } from '../../app/loading.js';
import { walk } from './outline.js';

const WAIT_MS = 250;
const SPANS_MAX = 1_000;
const BAD_REQUEST = 400;

/** @typedef {import('./outline.js').Outline} Outline */
/** @typedef {{matches: number[], isLoading: boolean, isCut: boolean, error: Error | null}} Found  `matches` are indices in the order of the tree. */

/** @param {Outline} outline  @returns {Found} */
export function useFind(outline) {
  const text = param('find') ?? '';
  const loaded = useLoaded((abort) => spansWithWords(outline.traceId, text, abort), [outline.traceId, text]);
  const words = loaded.isOld ? null : loaded.data;
  const lower = text.trim().toLowerCase();
  const names = useMemo(() => (lower ? namesOf(outline) : []), [outline, lower !== '']);
  const order = useMemo(() => (lower ? walk(outline.roots, outline.children) : []), [outline, lower !== '']);
  const matches = useMemo(() => {
    const inTexts = new Set((words?.ids ?? []).map((id) => outline.indexOf.get(id)));
    return order.filter((index) => inTexts.has(index) || names[index]?.includes(lower));
  }, [order, names, lower, words]);
  return { matches, isLoading: text !== '' && (loaded.isLoading || loaded.isOld), isCut: words?.isCut ?? false, error: loaded.error };
}

/** What is searched of each span as it is typed: once for all texts, since a trace may have 100,000 spans. @param {Outline} outline @returns {string[]} */
function namesOf(outline) {
  const columns = /** @type {const} */ (['span_name', 'model', 'service', 'span_type']);
  return Array.from({ length: outline.count }, (_, index) => columns.map((name) => outline.text(name, index)).join('\n').toLowerCase());
}

/**
 * The spans of a trace whose texts have all words of a text.
 * @param {string} traceId @param {string} text @param {AbortSignal} abort
 * @returns {Promise<{ids: string[], isCut: boolean}>}
 */
async function spansWithWords(traceId, text, abort) {
  const nothing = { ids: [], isCut: false };
  if (!/[\p{L}\p{N}]/u.test(text)) return nothing; // no word
  await new Promise((resolve) => { setTimeout(resolve, WAIT_MS); });
  if (abort.aborted) return nothing;
  const conditions = [{ field: 'trace_id', operator: 'is', value: traceId }, { field: 'content', operator: 'contains', value: text }];
  try {
    const answer = await post('spans/groups/query', { filtering: { conditions }, group_by: ['span_id'], limit: SPANS_MAX }, abort);
    return { ids: answer.groups.map((/** @type {any} */ { by }) => by.span_id), isCut: answer.others !== undefined || answer.complete === false };
  } catch (error) {
    if (error instanceof ApiError && error.status === BAD_REQUEST) return nothing; // a text that the API cannot search for
    throw error;
  }
}

/**
 * The field, how many spans match, and steps from one to the next.
 * @param {{found: Found, selected: number, select: (index: number) => void}} props
 */
export function Find({ found, selected, select }) {
  const { matches, isLoading, isCut, error } = found;
  const text = param('find') ?? '';
  const [typed, setTyped] = useState(text);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => { if (document.activeElement !== field.current) setTyped(text); }, [text]);
  const place = matches.indexOf(selected);
  /** @param {number} step */
  const go = (step) => { if (matches.length) select(matches.at(place === -1 ? (step > 0 ? 0 : -1) : (place + step) % matches.length) ?? -1); };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key === 'Enter') {
      event.preventDefault();
      go(event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      setTyped('');
      setParams({ find: null }, { replace: true });
      field.current?.blur();
    }
  };
  const count = matches.length === 0 ? (isLoading ? 'Searching…' : 'No span') : `${place === -1 ? '' : `${number(place + 1)} of `}${number(matches.length)}${isCut ? '+' : ''}`;
  return html`<div class="find ${text ? '' : 'idle'}" role="search">
    <input ref=${field} type="search" data-focus="filter" aria-label="Search in this trace" placeholder="Search names and texts" value=${typed}
      autocomplete="off" spellcheck="false" onKeyDown=${onKeyDown}
      onInput=${(/** @type {any} */ event) => { setTyped(event.target.value); setParams({ find: event.target.value }, { replace: true }); }} />
    <${Steps} of="match" isOn=${matches.length > 0} go=${go} />
    <span class="soft find-count" role="status">${text && count}</span>
    ${error && html`<span class="error-text">${error.message}</span>`}
  </div>`;
}

/** Buttons to the previous and the next of something. @param {{of: string, isOn: boolean, go: (step: number) => void}} props */
export function Steps({ of, isOn, go }) {
  return html`<span class="steps"><button class="quiet" disabled=${!isOn} aria-label="Previous ${of}" title="Previous ${of}" onClick=${() => go(-1)}>↑</button><button
    class="quiet" disabled=${!isOn} aria-label="Next ${of}" title="Next ${of}" onClick=${() => go(1)}>↓</button></span>`;
}

