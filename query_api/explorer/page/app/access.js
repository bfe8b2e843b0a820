/** What the key of this browser session may do. */
import { get, keys } from './api.js';
import { useLoaded } from './loading.js';

/** The scopes of the key that was used last: asked for once. */
let known = { key: /** @type {string | null} */ (null), scopes: Promise.resolve(/** @type {string[] | null} */ (null)) };

/** @returns {Promise<string[] | null>}  `null` if they are not known. */
function scopesOfKey() {
  const key = keys.peek().project;
  if (known.key !== key) known = { key, scopes: get('projects/current').then(({ scopes }) => (Array.isArray(scopes) ? scopes : null), () => null) };
  return known.scopes;
}

/** @param {string} scope  @returns {boolean}  Whether it is known that the key has not this scope. */
function useLacks(scope) {
  const { data } = useLoaded(scopesOfKey, []);
  return data !== null && !data.includes(scope);
}

/** Why changes are not possible, in words; `null` if they are, or while that is not known. */
export function useReadOnlyReason() {
  return useLacks('write') ? 'Your key may only read. To change something, use a key with the scope “write”.' : null;
}

/** Why feedback cannot be given, in words; `null` if it can, or while that is not known. */
export function useSilentReason() {
  return useLacks('ingest') ? 'Your key may not send spans, and feedback is one. Use a key with the scope “ingest”.' : null;
}
