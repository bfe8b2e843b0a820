/** What the key of this browser session may do. */
import { get } from './api.js';
import { useLoaded } from './loading.js';

/** Why changes are not possible, in words; `null` if they are, or while that is not known. */
export function useReadOnlyReason() {
  const { data } = useLoaded((abort) => get('projects/current', {}, abort), []);
  const isReadOnly = Array.isArray(data?.scopes) && !data.scopes.includes('write');
  return isReadOnly ? 'Your key may only read. To change something, use a key with the scope “write”.' : null;
}
