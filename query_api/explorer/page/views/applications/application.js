/** One application: its variants, each with its versions. */
import { html } from 'htm/preact';
import { href, param, setParams } from '../../app/address.js';
import { post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Archive, NewVariant } from './creating.js';
import { loadEnvironments } from './environments.js';
import { scoreNames } from './figures.js';
import { Versions } from './versions.js';

const LIMIT = 100;

/** @param {{slug: string}} props */
export function Application({ slug }) {
  const archived = param('archived') === '1';
  const loaded = useLoaded(async (abort) => {
    const [application] = (await post('applications/query', { application: { slug }, include_archived: true }, abort)).applications ?? [];
    if (!application) return null;
    const refs = { application_refs: [{ id: application.id }], windowing: { limit: LIMIT }, include_archived: archived };
    const [variants, revisions, environments] = await Promise.all([
      post('applications/variants/query', { ...refs, windowing: { ...refs.windowing, order: 'ascending' } }, abort),
      post('applications/revisions/query', refs, abort), loadEnvironments(abort),
    ]);
    const all = revisions.application_revisions;
    return { application, variants: variants.application_variants, revisions: all, environments, names: await scoreNames(all, abort) };
  }, [slug, archived]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">${loaded.isLoading ? 'Loading…' : 'There is no such application.'}</p>`;
  const { application, variants, revisions, environments, names } = loaded.data;
  const of = (/** @type {any} */ variant) => revisions.filter((/** @type {any} */ revision) => revision.application_variant_id === variant.id);
  return html`<div class="page">
    <div class="page-head"><a class="quiet" href=${href(['applications'])} aria-label="Back to the applications">←</a>
      <h1>${application.name || slug}</h1><code class="soft">${slug}</code>
      ${application.deleted_at && html`<span class="badge">archived</span>`}
      <${NewVariant} application=${application} variants=${variants.filter((/** @type {any} */ variant) => of(variant).length > 0 && !variant.deleted_at)} />
      <${Archive} path=${`applications/${application.id}`} isArchived=${Boolean(application.deleted_at)} what=${application.name || slug} done=${loaded.reload} />
      <label class="archived-switch"><input type="checkbox" checked=${archived} onChange=${(/** @type {any} */ event) => setParams({ archived: event.target.checked ? '1' : null })} /> Archived variants too</label></div>
    ${application.description && html`<p>${application.description}</p>`}
    ${variants.length === 0 && html`<p class="soft">No variant yet.</p>`}
    ${variants.map((/** @type {any} */ variant) => html`<section key=${variant.id} class="card">
      <div class="card-head"><h2>${variant.name || variant.slug} <code class="soft">${variant.slug}</code></h2>
        ${variant.deleted_at && html`<span class="badge">archived</span>`}<${ForkedFrom} slug=${slug} variant=${variant} variants=${variants} revisions=${revisions} />
        <span class="head-actions"><a class="button" href=${href(['applications', slug, 'edit'], { variant: variant.slug })}>Edit</a>
          <${Archive} path=${`applications/variants/${variant.id}`} isArchived=${Boolean(variant.deleted_at)} what=${variant.name || variant.slug} done=${loaded.reload} /></span></div>
      <${Versions} slug=${slug} revisions=${of(variant)} environments=${environments} names=${names} /></section>`)}
    <p class="soft">Figures are of the spans of the last 30 days that refer to the version.</p>
  </div>`;
}

/** @param {{slug: string, variant: any, variants: any[], revisions: any[]}} props */
function ForkedFrom({ slug, variant, variants, revisions }) {
  if (!variant.forked_from) return null;
  const source = variants.find(({ id }) => id === variant.forked_from.variant_id);
  const revision = revisions.find(({ id }) => id === variant.forked_from.revision_id);
  const name = source ? source.name || source.slug : 'another variant';
  return html`<span class="soft">forked from <bdi>${name}</bdi>${revision && html`, <a href=${href(['applications', slug, 'revisions', revision.id])}>v${revision.version}</a>`}</span>`;
}
