/**
 * The address of the page holds the whole state of a view, so that a view can be shared, reloaded and left by "back".
 * This is the one place that reads and writes it.
 *
 * `/ui/traces/0a0b?span=0c` is the path `['traces', '0a0b']` with the parameter `span`.
 */
import { computed, signal } from '@preact/signals';

/** The address of `/ui/`, which ends with a slash. The server writes it into `<base>`. */
export const ROOT = new URL('./', document.baseURI);

/** The view at `ROOT` itself. */
const HOME = 'overview';

/** Whether the view that is shown may be left. A view with unsaved changes sets it (`leaving.js`). */
export const leaving = { mayLeave: () => true };

/** @typedef {Readonly<{path: readonly string[], params: URLSearchParams}>} Address */
/** @typedef {Record<string, string | null | undefined>} Changes  `null`, `undefined` and `''` remove a parameter. */

/** @returns {Address} */
function read() {
  const below = location.pathname.startsWith(ROOT.pathname) ? location.pathname.slice(ROOT.pathname.length) : '';
  const path = below.split('/').filter(Boolean).map(decodeURIComponent);
  return { path: path.length ? path : [HOME], params: new URLSearchParams(location.search) };
}

/** The current address. */
export const address = signal(read());

/** The name of the view: the first segment of the path. */
export const viewName = computed(() => address.value.path[0] ?? HOME);

/**
 * Return the address of a view, for links.
 * @param {readonly string[]} path
 * @param {Changes | URLSearchParams} [params]
 */
export function href(path, params = {}) {
  const isHome = path.length === 1 && path[0] === HOME;
  const url = new URL(isHome ? './' : path.map(encodeURIComponent).join('/'), ROOT);
  url.search = (params instanceof URLSearchParams ? params : changed(new URLSearchParams(), params)).toString();
  return url.pathname + url.search;
}

/**
 * Go to an address of the page. The entry of the history remembers the list that was shown last, for links back to it.
 * @param {string} target  What `href` returned.
 * @param {{replace?: boolean}} [options]  `replace` does not add an entry for "back".
 */
export function navigate(target, { replace = false } = {}) {
  if (target === location.pathname + location.search) return;
  if (new URL(target, location.href).pathname !== location.pathname && !leaving.mayLeave()) return;
  const isList = address.peek().path.length === 1 && !replace;
  const list = isList ? location.pathname + location.search : history.state?.list;
  history[replace ? 'replaceState' : 'pushState']({ list }, '', target);
  address.value = read();
}

/**
 * The list from which a view was opened, with its filter; without one, the first of the views.
 * @param {string[]} views  That the link may lead to.
 * @returns {{target: string, name: string}}
 */
export function listBefore(views) {
  const { list } = history.state ?? {};
  const name = list === undefined ? undefined : views.find((view) => list.split('?')[0] === href([view]));
  return name ? { target: list, name } : { target: href([views[0] ?? '']), name: views[0] ?? '' };
}

/**
 * Change parameters of the current view and keep the others.
 * @param {Changes} changes
 * @param {{replace?: boolean}} [options]
 */
export function setParams(changes, options) {
  const { path, params } = address.value;
  navigate(href(path, changed(params, changes)), options);
}

/** @param {string} name */
export function param(name) {
  return address.value.params.get(name);
}

/**
 * @param {URLSearchParams} params
 * @param {Changes} changes
 */
function changed(params, changes) {
  const copy = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '') copy.delete(name);
    else copy.set(name, value);
  }
  return copy;
}

/** Follow links inside the page without loading it again, and "back" and "forward". */
export function listenToAddress() {
  addEventListener('popstate', (event) => {
    const { path, params } = address.peek();
    if (href(path) === location.pathname || leaving.mayLeave()) address.value = read();
    else history.pushState(event.state, '', href(path, params));
  });
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || event.defaultPrevented || event.button !== 0 || link.target) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(ROOT.pathname)) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}
