/**
 * Saved charts. A chart is a saved query with the filter and the time range, whose `meta.chart` says what is drawn; so
 * programs can run its filter by the slug, and everybody with a key of the project sees it.
 */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { href, param, setParams } from '../../app/address.js';
import { call, get, post } from '../../app/api.js';
import { writeFilter } from '../../app/filter.js';
import { useLoaded } from '../../app/loading.js';
import { slugOf } from '../../app/slug.js';
import { Dialog } from '../../components/shell.js';
import { ALL_TIME } from '../../components/time_range.js';
import { readDefinition } from './definition.js';

const CHARTS_MAX = 100;

/** @typedef {import('./definition.js').Definition} Definition */

/** @param {{definition: Definition, filter: object, range: object}} props */
export function SavedCharts({ definition, filter, range }) {
  const [isSaving, setSaving] = useState(false);
  const loaded = useLoaded((abort) => post('simple/queries/query', { query: { meta: { chart: {} } }, windowing: { limit: CHARTS_MAX + 1 } }, abort), []);
  const queries = loaded.data?.queries ?? [];
  const charts = queries.slice(0, CHARTS_MAX);
  const slug = param('chart');
  const done = (/** @type {string} */ saved) => {
    setSaving(false);
    setParams({ chart: saved }, { replace: true });
    loaded.reload();
  };
  return html`<button onClick=${() => setSaving(true)}>Save</button>
    ${charts.length > 0 && html`<nav class="saved-charts" aria-label="Saved charts"><span class="soft">Saved</span> ${charts.map((/** @type {any} */ query) => html`<a key=${query.id}
      class="chip-link" aria-current=${query.slug === slug ? 'true' : null} href=${chartHref(query)}><bdi>${query.name || query.slug}</bdi></a>`)}
      ${queries.length > CHARTS_MAX && html` <span class="soft">The latest ${CHARTS_MAX} charts. Older ones are in the API.</span>`}</nav>`}
    ${loaded.error && html`<span class="error-text" role="alert">${loaded.error.message}</span>`}
    ${isSaving && html`<${Dialog} title="Save this chart" close=${() => setSaving(false)}>
      <${Form} existing=${charts.find((/** @type {any} */ query) => query.slug === slug)} done=${done}
        content=${{ data: { filtering: filter, windowing: range }, meta: { chart: { measure: definition.measure, as: definition.statistic, by: definition.by, top: definition.top } } }} /></${Dialog}>`}`;
}

/** @param {{existing: any, content: {data: object, meta: object}, done: (slug: string) => void}} props */
function Form({ existing, content, done }) {
  const [problem, setProblem] = useState('');
  const attempt = async (/** @type {() => Promise<any>} */ request) => {
    try {
      done((await request()).query.slug);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  /** @param {SubmitEvent} event */
  const create = (event) => {
    event.preventDefault();
    const name = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('name') ?? '').trim();
    attempt(() => post('simple/queries/', { query: { slug: slugOf(name.toLowerCase()), name, ...content } }));
  };
  return html`<form onSubmit=${create}>
    ${existing && html`<button type="button" onClick=${() => attempt(() => replace(existing, content))}>Replace “${existing.name}”</button>`}
    <label>Name <input name="name" required maxlength="100" autocomplete="off" /></label>
    ${problem && html`<p class="chip-problem" role="alert">${problem}</p>`}
    <button class="primary">Save as a new chart</button></form>`;
}

/**
 * Replace a chart; members of `meta` and `data` that are not of the chart stay as they are stored.
 * @param {{id: string, name: string}} chart
 * @param {{data: object, meta: object}} content
 */
async function replace({ id, name }, { data, meta }) {
  const { query: stored } = await get(`simple/queries/${id}`);
  return call('PUT', `simple/queries/${id}`, { query: { id, name, data: { ...stored?.data, ...data }, meta: { ...stored?.meta, ...meta } } });
}

/** The address of a saved chart. @param {any} query */
export function chartHref({ slug, data, meta }) {
  const { measure, statistic, by, top } = readDefinition(meta?.chart ?? {});
  const { oldest = ALL_TIME, newest } = data?.windowing ?? {};
  const filter = data?.filtering?.conditions?.length ? writeFilter(data.filtering) : null;
  return href(['charts'], { chart: slug, measure, as: statistic, by, top: String(top), filter, oldest, newest });
}
