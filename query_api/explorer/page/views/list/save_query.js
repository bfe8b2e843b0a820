/**
 * Save the filter, the time range and the order of a list: as a new saved query, or as the next revision of one. The
 * address names the saved query that was opened or saved last; its name stands above the list.
 */
import { html } from 'htm/preact';
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { href, param, setParams } from '../../app/address.js';
import { post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { sortFrom } from '../../app/scores.js';
import { slugOf } from '../../app/slug.js';
import { Dialog } from '../../components/shell.js';
import { ALL_TIME } from '../../components/time_range.js';

const QUERIES_MAX = 100;
const NEW = '';

/** @typedef {{filter: object, windowing: object}} View */
/** @typedef {{slug: string, version: string}} Saved */

/** What was saved last on this page, to say so. */
const savedLast = signal(/** @type {Saved | null} */ (null));

/** @param {View & {focus: 'trace' | 'span'}} props */
export function SaveQuery({ filter, windowing, focus }) {
  const [isOpen, setOpen] = useState(false);
  /** @param {Saved} result */
  const done = (result) => {
    setOpen(false);
    savedLast.value = result;
    setParams({ query: result.slug, version: result.version }, { replace: true });
  };
  const data = { filtering: filter, windowing, formatting: { focus } };
  return html`<button onClick=${() => setOpen(true)}>Save</button>
    ${isOpen && html`<${Dialog} title="Save this view as a query" close=${() => setOpen(false)}><${Form} data=${data} done=${done} /></${Dialog}>`}`;
}

/** @param {{data: object, done: (result: Saved) => void}} props */
function Form({ data, done }) {
  const loaded = useLoaded((abort) => post('simple/queries/query', { windowing: { limit: QUERIES_MAX } }, abort), []);
  const [slug, setSlug] = useState(param('query') ?? NEW);
  const [problem, setProblem] = useState('');
  const queries = loaded.data?.queries ?? [];
  const existing = queries.find((/** @type {any} */ query) => query.slug === slug);
  /** @param {SubmitEvent} event */
  const save = async (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const text = (/** @type {string} */ name) => String(form.get(name) ?? '').trim();
    try {
      done(existing ? await commit(existing, data, text('message')) : await create(text('name'), data));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return html`<form onSubmit=${save}>
    ${queries.length > 0 && html`<label>Save as <select name="query" value=${existing ? slug : NEW} onChange=${(/** @type {any} */ event) => setSlug(event.target.value)}>
      <option value=${NEW}>A new query</option>
      ${queries.map((/** @type {any} */ query) => html`<option value=${query.slug}>The next version of ${query.name || query.slug}</option>`)}
    </select></label>`}
    ${existing
      ? html`<label>What changed <input name="message" maxlength="500" autocomplete="off" placeholder="optional" /></label>`
      : html`<label>Name <input name="name" required maxlength="100" autocomplete="off" /></label>`}
    ${(problem || loaded.error) && html`<p class="chip-problem" role="alert">${problem || loaded.error?.message}</p>`}
    <button class="primary">Save</button>
  </form>`;
}

/** @param {string} name @param {object} data */
async function create(name, data) {
  const slug = slugOf(name.toLowerCase());
  await post('simple/queries/', { query: { slug, name, data } });
  return { slug, version: '1' };
}

/** @param {any} query @param {object} data @param {string} message */
async function commit(query, data, message) {
  const revision = { query_variant_id: query.variant_id, data, ...(message && { message }) };
  const answer = await post('queries/revisions/commit', { query_revision: revision });
  return { slug: query.slug, version: answer.query_revision.version };
}

/** The name of the saved query that the list shows, and whether the list differs from it. @param {View} props */
export function SavedQueryTitle({ filter, windowing }) {
  const [slug, version] = [param('query'), param('version')];
  const loaded = useLoaded(async (abort) => {
    if (!slug) return null;
    const [{ queries }, { query_revision: revision }] = await Promise.all([
      post('simple/queries/query', { query: { slug } }, abort),
      post('queries/revisions/retrieve', { query_ref: { slug }, ...(version && { query_revision_ref: { version } }) }, abort),
    ]);
    return { name: queries[0]?.name || slug, revision };
  }, [slug, version]);
  useEffect(() => () => { savedLast.value = null; }, []);
  if (!slug || !loaded.data || loaded.isOld) return null;
  const { name, revision } = loaded.data;
  const isSame = sameView(revision?.data, { filter, windowing });
  const isNew = savedLast.value?.slug === slug && savedLast.value?.version === version;
  return html`<p class="ranking saved-query" role="status">${isSame && isNew ? 'Saved:' : 'Saved query'} <strong>${name}</strong>, version ${revision?.version}
    ${!isSame && html`<span class="soft"> · changed since; Save keeps the changes</span>`}
    ${' '}<a href=${href(['queries', slug])}>History</a>
    <button class="quiet" title="Keep the list, forget the query" aria-label="Forget the query" onClick=${() => setParams({ query: null, version: null })}>×</button></p>`;
}

/** @param {any} data @param {View} view */
function sameView(data, { filter, windowing }) {
  const parts = (/** @type {any} */ filtering, /** @type {any} */ { oldest, newest, sort, order } = {}) => JSON.stringify([
    (filtering?.conditions ?? []).map((/** @type {any} */ { field, key, operator = 'is', value, conditions }) => [field, key, operator, value, conditions]),
    filtering?.operator ?? 'and', oldest, newest, sort?.by, sort?.order ?? order ?? 'descending',
  ]);
  return parts(data?.filtering, data?.windowing) === parts(filter, windowing);
}

/**
 * The list with the filter, the time range and the order of a revision of a saved query.
 * @param {string} slug
 * @param {{data?: any, version?: string}} revision
 */
export function savedQueryHref(slug, { data, version }) {
  const { filtering, windowing = {}, formatting } = data ?? {};
  const filter = filtering?.conditions?.length ? JSON.stringify(filtering) : null;
  const range = { oldest: windowing.oldest ?? ALL_TIME, newest: windowing.newest };
  return href([formatting?.focus === 'span' ? 'spans' : 'traces'], { query: slug, version, filter, ...range, sort: sortFrom(windowing.sort?.by), order: windowing.sort?.order ?? windowing.order });
}
