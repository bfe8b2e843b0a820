/** Which revisions run in which environment. */
import { html } from 'htm/preact';
import { post } from '../../app/api.js';

const LIMIT = 100;

/** @typedef {{id: string, slug: string, name: string, deployed: Readonly<Record<string, string>>}} Environment  `deployed` is the id of the revision for each key. */

/** @param {AbortSignal} abort  @returns {Promise<Environment[]>} */
export async function loadEnvironments(abort) {
  const { environments } = await post('simple/environments/query', { windowing: { limit: LIMIT, order: 'ascending' } }, abort);
  return environments.map((/** @type {any} */ { id, slug, name, data }) => {
    const references = Object.entries(data?.references ?? {});
    const deployed = references.flatMap(([key, reference]) => {
      const revision = /** @type {any} */ (reference)?.application_revision?.id;
      return revision ? [[key, revision]] : [];
    });
    return { id, slug, name: name || slug, deployed: Object.fromEntries(deployed) };
  });
}

/** Says where a revision is deployed. @param {{environments: readonly Environment[], id: string}} props */
export function DeployedIn({ environments, id }) {
  const names = environments.filter(({ deployed }) => Object.values(deployed).includes(id));
  return names.map(({ slug, name }) => html`<span key=${slug} class="badge">in <bdi>${name.toLowerCase()}</bdi></span> `);
}
