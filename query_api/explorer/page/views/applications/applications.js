/** Applications with their variants and revisions, what is deployed, and two revisions side by side. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { API, post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { Application } from './application.js';
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

function NoApplications() {
  return html`<div class="notice empty"><h2>No applications</h2>
    <p>Keep the prompts and settings of an application here, to see which revision produced a span. Create one with:</p>
    <pre>${`curl ${new URL('simple/applications/', API).href} -H 'content-type: application/json' \\
  -d '{"application": {"slug": "faq-bot", "data": {"parameters": {"prompt": "Be kind."}}}}'`}</pre></div>`;
}
