/** Who committed a revision. The names are loaded once for a key. */
import { html } from 'htm/preact';
import { get, keys } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';

/** @type {{key: string, names: Promise<Map<string, string>>} | null} */
let known = null;

/** @returns {Promise<Map<string, string>>}  Addresses by the id of the user. */
function loadNames() {
  const key = keys.peek().project;
  if (known?.key !== key) known = { key, names: get('projects/users').then(({ users }) => new Map(users.map((/** @type {any} */ { id, email }) => [id, email ?? '']))) };
  known.names.catch(() => { known = null; });
  return known.names;
}

/** @param {{id?: string}} props */
export function Author({ id }) {
  const { data } = useLoaded(() => loadNames(), []);
  if (!id) return null;
  const email = data?.get(id);
  const [name] = email?.split('@') ?? [];
  return html`<bdi class="soft" title=${email || id}>${name || (data ? '–' : '…')}</bdi>`;
}
