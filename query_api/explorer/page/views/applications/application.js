/** One application: its variants, each with its versions. */
import { html } from 'htm/preact';
import { href, param, setParams } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Archive, NewVariant } from './creating.js';
import { loadEnvironments } from './environments.js';
import { scoreNames } from './figures.js';
import { Versions } from './versions.js';

const VARIANTS_MAX = 100;
const REVISIONS_MAX = 100;

/** @param {{slug: string}} props */
export function Application({ slug }) {
  const archived = param('archived') === '1';
  const loaded = useLoaded(async (abort) => {
    const [application] = (await post('applications/query', { application: { slug }, include_archived: true }, abort)).applications ?? [];
    if (!application) return null;
    const query = { application_refs: [{ id: application.id }], windowing: { limit: VARIANTS_MAX, order: 'ascending' }, include_archived: archived };
    const [{ application_variants: variants }, environments] = await Promise.all([post('applications/variants/query', query, abort), loadEnvironments(abort)]);
    return { application, variants, environments };
  }, [slug, archived]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">${loaded.isLoading ? 'Loading…' : 'There is no such application.'}</p>`;
  const { application, variants, environments } = loaded.data;
  return html`<div ...${marksOf(loaded, 'page')}>
    <div class="page-head"><a class="quiet" href=${href(['applications'])} aria-label="Back to the applications">←</a>
      <h1>${application.name || slug}</h1>${(application.name || slug) !== slug && html`<code class="soft">${slug}</code>`}
      ${application.deleted_at && html`<span class="badge">archived</span>`}
      <${NewVariant} application=${application} variants=${variants.filter((/** @type {any} */ variant) => !variant.deleted_at)} />
      <${Archive} path=${`applications/${application.id}`} isArchived=${Boolean(application.deleted_at)} what=${application.name || slug} done=${loaded.reload} />
      <label class="archived-switch"><input type="checkbox" checked=${archived} onChange=${(/** @type {any} */ event) => setParams({ archived: event.target.checked ? '1' : null })} /> Archived variants too</label></div>
    ${application.description && html`<p>${application.description}</p>`}
    ${variants.length === 0 && html`<p class="soft">No variant yet.</p>`}
    ${variants.map((/** @type {any} */ variant) => html`<${Variant} key=${variant.id} slug=${slug} variant=${variant} variants=${variants} environments=${environments} reload=${loaded.reload} />`)}
    <p class="soft">Figures are of the spans of the last 30 days that refer to the version.</p>
  </div>`;
}

/** @param {{slug: string, variant: any, variants: any[], environments: readonly import('./environments.js').Environment[], reload: () => void}} props */
function Variant({ slug, variant, variants, environments, reload }) {
  const loaded = useLoaded(async (abort) => {
    const query = { application_variant_refs: [{ id: variant.id }], windowing: { limit: REVISIONS_MAX }, include_archived: Boolean(variant.deleted_at) };
    const { application_revisions: revisions } = await post('applications/revisions/query', query, abort);
    return { revisions, names: await scoreNames(revisions, abort) };
  }, [variant.id, variant.deleted_at]);
  return html`<section class="card">
    <div class="card-head"><h2>${variant.name || variant.slug} ${(variant.name || variant.slug) !== variant.slug && html`<code class="soft">${variant.slug}</code>`}</h2>
      ${variant.deleted_at && html`<span class="badge">archived</span>`}
      ${variant.forked_from && html`<${ForkedFrom} slug=${slug} source=${variant.forked_from} variants=${variants} />`}
      <span class="head-actions"><a class="button" href=${href(['applications', slug, 'edit'], { variant: variant.slug })}>Edit</a>
        <${Archive} path=${`applications/variants/${variant.id}`} isArchived=${Boolean(variant.deleted_at)} what=${variant.name || variant.slug} done=${reload} /></span></div>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data ? html`<${Versions} slug=${slug} revisions=${loaded.data.revisions} environments=${environments} names=${loaded.data.names} />` : !loaded.error && html`<p class="soft versions-loading" role="status">Loading…</p>`}
  </section>`;
}

/** @param {{slug: string, source: {variant_id: string, revision_id: string}, variants: any[]}} props */
function ForkedFrom({ slug, source, variants }) {
  const { data: revision } = useLoaded(async (abort) => (await get(`applications/revisions/${source.revision_id}`, {}, abort)).application_revision, [source.revision_id]);
  const variant = variants.find(({ id }) => id === source.variant_id);
  const name = variant?.name || revision?.application_variant_slug || 'another variant';
  return html`<span class="soft">forked from <bdi>${name}</bdi>${revision && html`, <a href=${href(['applications', slug, 'revisions', revision.id])}>v${revision.version}</a>`}</span>`;
}
