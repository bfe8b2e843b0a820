/** One revision: what its spans took, its data, and where it is in the history. */
import { html } from 'htm/preact';
import { href, param, setParams } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { useTitle } from '../../app/title.js';
import { CopyButton } from '../../components/copy.js';
import { JsonTree } from '../../components/json_tree.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { Author } from './author.js';
import { ForkFromHere } from './creating.js';
import { DeployedIn, loadEnvironments } from './environments.js';
import { FIGURES, loadFigures, scoreHref, scoreNames, scoreValue, figureHref } from './figures.js';
import { messageLists } from './prompts.js';

const RANGES = [['1d', 'last day'], ['7d', 'last 7 days'], ['30d', 'last 30 days']];

/** @param {{slug: string, id: string}} props */
export function Revision({ slug, id }) {
  const loaded = useLoaded(async (abort) => {
    const { application_revision: revision } = await get(`applications/revisions/${encodeURIComponent(id)}`, {}, abort);
    if (!revision) return null;
    const query = { application_variant_refs: [{ id: revision.application_variant_id }], windowing: { limit: 100 } };
    const [{ application_revisions: all }, environments] = await Promise.all([post('applications/revisions/query', query, abort), loadEnvironments(abort)]);
    const before = all.find((/** @type {any} */ each) => Number(each.version) === Number(revision.version) - 1 && each.data);
    const newest = Math.max(...all.map((/** @type {any} */ each) => Number(each.version)));
    return { revision, environments, before, isHead: Number(revision.version) >= newest };
  }, [id]);
  useTitle(loaded.data ? `${slug}, version ${loaded.data.revision.version}` : slug);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">${loaded.isLoading ? 'Loading…' : 'There is no such revision.'}</p>`;
  const { revision, environments, before, isHead } = loaded.data;
  const to = (/** @type {string} */ what, /** @type {Record<string, string>} */ params) => href(['applications', slug, what], params);
  const edit = { variant: revision.application_variant_slug, ...(!isHead && { from: revision.id }) };
  return html`<div class="page">
    <div class="page-head"><a class="quiet" href=${href(['applications', slug])} aria-label="Back to ${slug}">←</a>
      <h1>${slug}, version ${revision.version}</h1><${DeployedIn} environments=${environments} id=${id} />
      ${before && html`<a href=${href(['applications', slug, 'compare'], { from: before.id, to: revision.id })}>What changed since v${before.version}</a>`}
      <span class="head-actions"><a class="button" href=${to('edit', edit)}>${isHead ? 'Edit' : 'Edit from here'}</a>
        <a class="button" href=${to('deploy', { revision: revision.id })}>Deploy</a>
        ${!isHead && html`<a class="button" href=${to('revert', { revision: revision.id })}>Go back to this</a>`}
        <${ForkFromHere} slug=${slug} revision=${revision} /></span></div>
    <p class="soft">${revision.message ?? 'No message'} · <${Author} id=${revision.author} /> · <${Time} value=${revision.created_at} /></p>
    <${Numbers} revision=${revision} />
    <${Prompts} data=${revision.data} />
    <section class="card"><div class="card-head"><h2>Data</h2><${CopyButton} text=${() => JSON.stringify(revision.data, null, 2)} /></div>
      ${revision.data ? html`<${JsonTree} value=${revision.data} open=${6} />` : html`<p class="soft">This revision has no data.</p>`}</section>
  </div>`;
}

/** @param {{revision: any}} props */
function Numbers({ revision }) {
  const range = param('range') ?? '30d';
  const loaded = useLoaded(async (abort) => {
    return loadFigures(revision.id, { oldest: `-${range}` }, await scoreNames([revision], abort), abort);
  }, [revision.id, range]);
  return html`<section ...${marksOf(loaded, 'card figures')}>
    <div class="card-head"><h2>Its spans</h2>
      <select aria-label="Time range" value=${range} onChange=${(/** @type {any} */ event) => setParams({ range: event.target.value }, { replace: true })}>
        ${RANGES.map(([name, title]) => html`<option value=${name}>${title}</option>`)}</select></div>
    ${loaded.error ? html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />` : html`<${Tiles} figures=${loaded.data} />`}
  </section>`;
}

/** @param {{figures: import('./figures.js').Figures | null}} props */
function Tiles({ figures }) {
  const { counts, scores } = figures ?? { counts: null, scores: {} };
  if (counts && !counts.spans) return html`<p class="soft figure-tiles">No span of this time names this revision.</p>`;
  const link = (/** @type {string} */ target, /** @type {string} */ text) => (counts && text ? html`<a href=${target}>${text}</a>` : counts ? '–' : '…');
  return html`<dl class="figure-tiles">
    ${FIGURES.map((figure) => html`<div><dt>${figure.title}</dt><dd>${link(counts && figureHref(counts, figure), counts ? figure.text(counts) : '')}</dd></div>`)}
    ${Object.entries(scores).map(([name, value]) => html`<div><dt><bdi>${name}</bdi>, average</dt><dd>${link(scoreHref(counts, name), scoreValue(value))}</dd></div>`)}
  </dl>
  ${counts && html`<p><a href=${href(['traces'], { filter: JSON.stringify(counts.filtering), oldest: counts.windowing.oldest, newest: counts.windowing.newest })}>All its traces</a></p>`}`;
}

/** The messages of the prompts. @param {{data: unknown}} props */
function Prompts({ data }) {
  return messageLists(data).map(({ path, messages }) => html`<section key=${path} class="card prompt"><h2>Messages <code class="soft">${path}</code></h2>
    ${messages.map(({ role, content }, place) => html`<div class="prompt-message" key=${place}><h3>${place + 1}, <bdi>${role}</bdi></h3>
      ${typeof content === 'string' ? html`<pre dir="auto">${content}</pre>` : html`<${JsonTree} value=${content ?? null} open=${4} />`}</div>`)}
  </section>`);
}
