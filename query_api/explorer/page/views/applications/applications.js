/** Applications with their variants and revisions, what is deployed, and two revisions side by side. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { API, post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { Compare } from './compare.js';
import { Deployments } from './deployments.js';
import { Revision } from './revision.js';

const LIMIT = 100;

/** Addresses: `/applications`, `/applications/{slug}`, `/applications/{slug}/compare?from=…&to=…`, `/applications/{slug}/revisions/{id}`. @param {{path: readonly string[]}} props */
export function ApplicationsView({ path }) {
  const [slug, what, id] = path;
  if (!slug) return html`<${ApplicationList} />`;
  if (what === 'revisions' && id) return html`<${Revision} key=${id} slug=${slug} id=${id} />`;
  return what === 'compare' ? html`<${Compare} slug=${slug} />` : html`<${Application} key=${slug} slug=${slug} />`;
}

function ApplicationList() {
  const loaded = useLoaded((abort) => post('applications/query', { windowing: { limit: LIMIT } }, abort), []);
  const applications = loaded.data?.applications ?? [];
  return html`<div class="page">
    <div class="page-head"><h1>Applications</h1></div>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data && applications.length === 0 && html`<${NoApplications} />`}
    ${applications.length > 0 && html`<table class="plain"><thead><tr><th>Application</th><th>Slug</th><th>Created</th></tr></thead><tbody>
      ${applications.map((/** @type {any} */ application) => html`<tr key=${application.id}>
        <td><a href=${href(['applications', application.slug])}>${application.name || application.slug}</a></td>
        <td><code>${application.slug}</code></td><td><${Time} value=${application.created_at} /></td></tr>`)}
    </tbody></table>`}
    <${Deployments} />
  </div>`;
}

/** @param {{slug: string}} props */
function Application({ slug }) {
  const loaded = useLoaded(async (abort) => {
    const [application] = (await post('applications/query', { application: { slug } }, abort)).applications ?? [];
    if (!application) return null;
    const refs = { application_refs: [{ id: application.id }], windowing: { limit: LIMIT } };
    const [variants, revisions] = await Promise.all([
      post('applications/variants/query', refs, abort), post('applications/revisions/query', refs, abort),
    ]);
    return { application, variants: variants.application_variants, revisions: revisions.application_revisions };
  }, [slug]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">${loaded.isLoading ? 'Loading…' : 'There is no such application.'}</p>`;
  const { application, variants, revisions } = loaded.data;
  return html`<div class="page">
    <div class="page-head"><a class="quiet" href=${href(['applications'])} aria-label="Back to the applications">←</a>
      <h1>${application.name || slug}</h1><code class="soft">${slug}</code></div>
    ${application.description && html`<p>${application.description}</p>`}
    ${variants.map((/** @type {any} */ variant) => html`<${Variant} key=${variant.id} slug=${slug} variant=${variant}
      revisions=${revisions.filter((/** @type {any} */ revision) => revision.application_variant_id === variant.id)} />`)}
  </div>`;
}

/** @param {{slug: string, variant: any, revisions: any[]}} props */
function Variant({ slug, variant, revisions }) {
  const newestFirst = revisions.toSorted((a, b) => Number(b.version) - Number(a.version));
  return html`<section class="card"><h2>Variant ${variant.name || variant.slug} <code class="soft">${variant.slug}</code> ${variant.forked_from && html`<span class="soft">forked</span>`}</h2>
    ${newestFirst.length === 0 && html`<p class="soft">No revision yet.</p>`}
    ${newestFirst.length > 0 && html`<table class="plain"><thead><tr><th>Version</th><th>Message</th><th>Committed</th><th></th></tr></thead><tbody>
      ${newestFirst.map((revision, index) => {
        const before = newestFirst[index + 1];
        return html`<tr key=${revision.id}><td><a href=${href(['applications', slug, 'revisions', revision.id])}>v${revision.version}</a></td><td>${revision.message ?? ''}</td><td><${Time} value=${revision.created_at} /></td>
          <td>${before && html`<a href=${href(['applications', slug, 'compare'], { from: before.id, to: revision.id })}>What changed</a>`}</td></tr>`;
      })}
    </tbody></table>`}
  </section>`;
}

function NoApplications() {
  return html`<div class="notice empty"><h2>No applications</h2>
    <p>Keep the prompts and settings of an application here, to see which revision produced a span. Create one with:</p>
    <pre>${`curl ${new URL('simple/applications/', API).href} -H 'content-type: application/json' \\
  -d '{"application": {"slug": "faq-bot", "data": {"parameters": {"prompt": "Be kind."}}}}'`}</pre></div>`;
}
