/** What each environment has deployed, and since when. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';

const LIMIT = 100;

export function Deployments() {
  const loaded = useLoaded(async (abort) => {
    const { environments } = await post('environments/query', { windowing: { limit: LIMIT } }, abort);
    return Promise.all(environments.map(async (/** @type {any} */ environment) => {
      const answer = await post('environments/revisions/retrieve', { environment_ref: { id: environment.id } }, abort);
      return { environment, revision: answer.environment_revision };
    }));
  }, []);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  const rows = (loaded.data ?? []).flatMap(({ environment, revision }) => {
    const deployed = Object.entries(revision?.data?.references ?? {});
    return deployed.map(([key, references]) => ({ environment, revision, key, references: /** @type {any} */ (references) }));
  });
  return html`<section class="card"><h2>Deployed</h2>
    ${loaded.data && rows.length === 0 && html`<p class="soft">Nothing is deployed to an environment yet.</p>`}
    ${rows.length > 0 && html`<table class="plain"><thead><tr><th>Environment</th><th>Application</th><th>Variant</th><th>Version</th><th>Last deployment</th></tr></thead><tbody>
      ${rows.map(({ environment, revision, key, references }) => html`<tr key=${environment.id + key}>
        <td>${environment.name || environment.slug}</td>
        <td>${references.application?.slug ? html`<a href=${href(['applications', references.application.slug])}>${references.application.slug}</a>` : key}</td>
        <td>${references.application_variant?.slug ?? ''}</td><td>v${references.application_revision?.version ?? ''}</td>
        <td><${Time} value=${revision.created_at} /> ${revision.message && html`<span class="soft">${revision.message}</span>`}</td></tr>`)}
    </tbody></table>`}
  </section>`;
}
