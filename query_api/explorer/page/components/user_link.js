/** Users that lead to their pages. */
import { html } from 'htm/preact';
import { href } from '../app/address.js';
import { post } from '../app/api.js';
import { useLoaded } from '../app/loading.js';

const USERS_MAX = 3;

/** @param {{id: string | undefined}} props */
export function UserLink({ id }) {
  return id ? html`<a href=${href(['users', id])}><bdi>${id}</bdi></a>` : null;
}

/** The users whom spans name; nothing while they are unknown. @param {{condition: import('../app/filter.js').Condition}} props */
export function UsersOf({ condition }) {
  const loaded = useLoaded((abort) => post('spans/groups/query', {
    filtering: { conditions: [condition, { field: 'user', operator: 'exists' }] }, group_by: ['user'], limit: USERS_MAX,
  }, abort), [JSON.stringify(condition)]);
  const users = (loaded.data?.groups ?? []).map((/** @type {any} */ { by }) => String(by.user));
  if (users.length === 0 || loaded.isOld) return null;
  const others = loaded.data?.others?.groups_count;
  return html`<span class="soft">${users.length === 1 ? 'User' : 'Users'} ${users.map((/** @type {string} */ id, /** @type {number} */ place) => html`${place > 0 && ', '}<${UserLink} key=${id} id=${id} />`)}${others && ` and ${others} more`}</span>`;
}
