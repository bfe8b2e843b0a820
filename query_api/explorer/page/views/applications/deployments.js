/** What each environment has deployed, and since when. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';

const LIMIT = 100;

export function Deployments() {
  const loaded = useLoaded(async (abort) => {
    const { environments } = await post('environments/query', { windowing: { limit: LIMIT } }, abort);
    const deployed = await Promise.all(environments.map((/** @type {any} */ environment) => deployedIn(environment, abort)));
    return deployed.flat();
  }, []);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  const rows = loaded.data ?? [];
  return html`<section class="card"><h2>Deployed</h2>
    ${loaded.data && rows.length === 0 && html`<p class="soft">Nothing is deployed to an environment yet.</p>`}
    ${rows.length > 0 && html`<table class="plain"><thead><tr><th>Environment</th><th>Application</th><th class="wide">Variant</th><th>Version</th><th>Since</th></tr></thead><tbody>
      ${rows.map(({ environment, key, revision, since, isEarlier }) => html`<tr key=${environment.id + key}>
        <td>${environment.name || environment.slug}</td>
        <td><a href=${href(['applications', revision.application_slug])}>${revision.application_slug}</a></td>
        <td class="wide"><code>${revision.application_variant_slug}</code></td>
        <td><a href=${href(['applications', revision.application_slug, 'revisions', revision.id])}>v${revision.version}</a></td>
        <td>${isEarlier && 'before '}<${Time} value=${since.created_at} /> ${since.message && html`<span class="soft">${since.message}</span>`}</td></tr>`)}
    </tbody></table>`}
  </section>`;
}

/**
 * @param {any} environment
 * @param {AbortSignal} abort
 * @returns {Promise<any[]>}  One row for each application that is deployed.
 */
async function deployedIn(environment, abort) {
  const query = { environment_refs: [{ id: environment.id }], windowing: { limit: LIMIT } };
  const { environment_revisions: found } = await post('environments/revisions/query', query, abort);
  const revisions = found.toSorted((/** @type {any} */ a, /** @type {any} */ b) => Number(b.version) - Number(a.version));
  const references = Object.entries(revisions[0]?.data?.references ?? {});
  const rows = await Promise.all(references.map(async ([key, reference]) => {
    const id = /** @type {any} */ (reference)?.application_revision?.id;
    const { application_revision: revision } = id ? await get(`applications/revisions/${id}`, {}, abort) : {};
    return { environment, key, revision, ...sinceWhen(revisions, key) };
  }));
  return rows.filter(({ revision }) => revision);
}

/**
 * The revision of an environment that brought what it has deployed now: later ones deployed other applications.
 * @param {any[]} revisions  Of the environment, newest first.
 * @param {string} key  The name of the deployment.
 * @returns {{since: any, isEarlier: boolean}}  `isEarlier` if it was deployed before the oldest of these.
 */
function sinceWhen(revisions, key) {
  const deployedIn = (/** @type {any} */ revision) => revision.data?.references?.[key]?.application_revision?.id;
  const first = revisions.findIndex((revision) => deployedIn(revision) !== deployedIn(revisions[0]));
  const since = first === -1 ? revisions.at(-1) : revisions[first - 1];
  return { since, isEarlier: first === -1 && revisions.length === LIMIT };
}
