/** Applications with their variants and revisions, what is deployed, and two revisions side by side. */
import { html } from 'htm/preact';
import { href, param, setParams } from '../../app/address.js';
import { post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { curlOf, SetKey } from '../../components/commands.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { Application } from './application.js';
import { Compare } from './compare.js';
import { NewApplication } from './creating.js';
import { Deploy } from './deploy.js';
import { Deployments } from './deployments.js';
import { Edit } from './editor/edit.js';
import { Revert } from './revert.js';
import { Revision } from './revision.js';

const LIMIT = 100;

/**
 * Addresses: `/applications`, and below `/applications/{slug}`: `revisions/{id}`, `compare?from=…&to=…`,
 * `edit?variant=…&from=…`, `deploy?revision=…&environment=…`, `revert?revision=…`.
 * @param {{path: readonly string[]}} props
 */
export function ApplicationsView({ path }) {
  const [slug, what, id] = path;
  if (!slug) return html`<${ApplicationList} />`;
  if (what === 'revisions' && id) return html`<${Revision} key=${id} slug=${slug} id=${id} />`;
  switch (what) {
    case 'compare': return html`<${Compare} slug=${slug} />`;
    case 'edit': return html`<${Edit} key=${`${slug}/${param('variant')}/${param('from')}`} slug=${slug} />`;
    case 'deploy': return html`<${Deploy} slug=${slug} />`;
    case 'revert': return html`<${Revert} slug=${slug} />`;
    default: return html`<${Application} key=${slug} slug=${slug} />`;
  }
}

function ApplicationList() {
  const archived = param('archived') === '1';
  const loaded = useLoaded((abort) => post('applications/query', { windowing: { limit: LIMIT }, include_archived: archived }, abort), [archived]);
  const applications = loaded.data?.applications ?? [];
  return html`<div class="page">
    <div class="page-head"><h1>Applications</h1><${NewApplication} />
      <label class="archived-switch"><input type="checkbox" checked=${archived} onChange=${(/** @type {any} */ event) => setParams({ archived: event.target.checked ? '1' : null })} /> Archived ones too</label></div>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data && applications.length === 0 && html`<${NoApplications} />`}
    ${applications.length > 0 && html`<table class="plain"><thead><tr><th>Application</th><th>Slug</th><th>Created</th></tr></thead><tbody>
      ${applications.map((/** @type {any} */ application) => html`<tr key=${application.id}>
        <td><a href=${href(['applications', application.slug])}>${application.name || application.slug}</a> ${application.deleted_at && html`<span class="badge">archived</span>`}</td>
        <td><code>${application.slug}</code></td><td><${Time} value=${application.created_at} /></td></tr>`)}
    </tbody></table>`}
    <${Deployments} />
  </div>`;
}

function NoApplications() {
  return html`<div class="notice empty"><h2>No applications</h2>
    <p>Keep the prompts and settings of an application here, to see which revision produced a span. Create one with:</p>
    <${SetKey} /><pre>${curlOf('simple/applications/', { application: { slug: 'faq-bot', data: { parameters: { prompt: 'Be kind.' } } } })}</pre></div>`;
}
