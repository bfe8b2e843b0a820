/**
 * The one client of the HTTP API. The page uses public routes only: what it shows, every client can ask.
 *
 * The key is kept for the browser session only. A 401 sets `needsKey`, and the page asks for a key.
 */
import { signal } from '@preact/signals';
import { ROOT } from './address.js';
import { parseExact } from './exact_json.js';

export const API = new URL('../', ROOT);
const KEY_ITEM = 'clearspan-key';

/** `'project'` or `'admin'` while a request was refused because it had no valid key; else `null`. */
export const needsKey = signal(/** @type {'project' | 'admin' | null} */ (null));

/** The keys of this browser session; views read it so that they load again after a key was entered. */
export const keys = signal({ project: stored('project'), admin: stored('admin') });

/** Everything that Kafka had accepted by this time is in the last answer; `null` if the API does not know. */
export const dataThrough = signal(/** @type {string | null} */ (null));

/** A failed request, in words. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, requestId?: string | null, path?: string | null, detail?: any}} [context]
   *   `path` is the place in the request that is wrong, such as `filtering.conditions[0].key`; `detail` is the whole error.
   */
  constructor(message, { status = 0, requestId = null, path = null, detail = null } = {}) {
    super(message);
    this.status = status;
    this.requestId = requestId;
    this.path = path;
    this.detail = detail;
  }
}

/**
 * @param {string} path  Without a leading slash.
 * @param {Record<string, string | number | null | undefined>} [params]
 * @param {AbortSignal} [abort]
 */
export function get(path, params = {}, abort) {
  return call('GET', withParams(path, params), undefined, abort);
}

/**
 * Get an answer whose numbers keep their digits.
 * @param {string} path
 * @param {AbortSignal} [abort]
 */
export async function getExact(path, abort) {
  return parseExact(await (await send('GET', path, undefined, abort)).text());
}

/**
 * @param {string} path
 * @param {unknown} body
 * @param {AbortSignal} [abort]
 * @param {string | null} [coordinates]  What `write` returned: the answer waits until that is stored.
 */
export async function post(path, body, abort, coordinates) {
  return (await request('POST', path, body, abort, coordinates)).answer;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [abort]
 * @returns {Promise<any>}
 */
export async function call(method, path, body, abort) {
  return (await request(method, path, body, abort)).answer;
}

/** Write spans; `coordinates` say what was written. @param {string} method @param {string} path @param {unknown} body */
export function write(method, path, body) {
  return request(method, path, body);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [abort]
 * @param {string | null} [coordinates]
 * @returns {Promise<{answer: any, coordinates: string | null}>}
 */
async function request(method, path, body, abort, coordinates) {
  const response = await send(method, path, body, abort, coordinates);
  return { answer: response.status === 204 ? null : await response.json(), coordinates: response.headers.get('X-Clearspan-Coordinates') };
}

/**
 * Begin to read an answer that is no JSON. Its pieces come as they are read.
 * @param {string} path
 * @param {Record<string, string | undefined>} params
 * @param {AbortSignal} abort
 */
export async function stream(path, params, abort) {
  return (await send('GET', withParams(path, params), undefined, abort)).body ?? new ReadableStream();
}

/** The address of a route, for links. @param {string} path  @param {Record<string, string | undefined>} [params] */
export function addressOf(path, params = {}) {
  return new URL(withParams(path, params), API).href;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [abort]
 * @param {string | null} [coordinates]
 * @returns {Promise<Response>}  A successful one.
 */
async function send(method, path, body, abort, coordinates) {
  const scope = path.startsWith('admin/') ? 'admin' : 'project';
  /** @type {Record<string, string>} */
  const headers = { Accept: 'application/json' };
  const key = keys.peek()[scope];
  if (key) headers.Authorization = `${scope === 'admin' ? 'Access' : 'ApiKey'} ${key}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (coordinates) headers['X-Clearspan-Wait-For'] = coordinates;
  let response;
  try {
    const init = { method, headers, body: body === undefined ? null : JSON.stringify(body), signal: abort ?? null };
    response = await fetch(new URL(path, API), init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError('The API cannot be reached. Is it running?');
  }
  const through = response.headers.get('X-Data-Through');
  if (through) dataThrough.value = through;
  if (response.ok) return response;
  if (response.status === 401 && key === keys.peek()[scope]) needsKey.value = scope; // else another key was entered since
  throw await failure(response);
}

/** @param {Response} response */
async function failure(response) {
  const requestId = response.headers.get('X-Request-Id');
  const detail = await response.json().then((body) => body.detail, () => null);
  const { message, path } = inWords(detail, response);
  return new ApiError(message, { status: response.status, requestId, path, detail });
}

/**
 * Return the text of an error body. Its forms: a text that begins with the path, `{message}`, and a list of problems.
 * @param {any} detail
 * @param {Response} response
 * @returns {{message: string, path: string | null}}
 */
function inWords(detail, response) {
  if (typeof detail === 'string') return { message: detail, path: /^([\w.[\]]+): /.exec(detail)?.[1] ?? null };
  if (Array.isArray(detail)) {
    const problems = detail.map((problem) => ({ at: pathOf(problem.loc ?? []), text: String(problem.msg) }));
    const message = problems.map(({ at, text }) => (at ? `${at}: ${text}` : text)).join('\n');
    return { message, path: problems[0]?.at || null };
  }
  if (detail && typeof detail.message === 'string') return { message: detail.message, path: null };
  return { message: `The API answered ${response.status} ${response.statusText}.`, path: null };
}

/** @param {(string | number)[]} loc */
function pathOf(loc) {
  return loc.slice(1).reduce((path, part) => {
    if (typeof part === 'number') return `${path}[${part}]`;
    return path ? `${path}.${part}` : part;
  }, '').toString();
}

/**
 * @param {string} path
 * @param {Record<string, string | number | null | undefined>} params
 */
function withParams(path, params) {
  const entries = Object.entries(params).flatMap(([name, value]) => (value == null ? [] : [[name, String(value)]]));
  return entries.length ? `${path}?${new URLSearchParams(entries)}` : path;
}

/** @param {'project' | 'admin'} scope */
function stored(scope) {
  try {
    return sessionStorage.getItem(`${KEY_ITEM}-${scope}`) ?? '';
  } catch {
    return ''; // storage is switched off in this browser
  }
}

/**
 * Use a key from now on, in this browser session; an empty one forgets it.
 * @param {'project' | 'admin'} scope
 * @param {string} key
 */
export function useKey(scope, key) {
  try {
    if (key) sessionStorage.setItem(`${KEY_ITEM}-${scope}`, key);
    else sessionStorage.removeItem(`${KEY_ITEM}-${scope}`);
  } catch { /* the key lives until the page is closed */ }
  keys.value = { ...keys.value, [scope]: key };
  needsKey.value = null;
}

/**
 * The project of a key, which need not be in use.
 * @param {string} key
 * @returns {Promise<{id: string, name: string}>}
 */
export async function projectOf(key) {
  const response = await fetch(new URL('projects/current', API), { headers: { Accept: 'application/json', Authorization: `ApiKey ${key}` } });
  if (response.status === 401) throw new ApiError('The API refused this key. It is wrong, expired or revoked.', { status: 401 });
  if (!response.ok) throw await failure(response);
  const project = await response.json();
  return { id: project.project_id, name: project.project_name };
}
