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

/** Whether the view that is shown may be left, and whether that was asked. A view with unsaved changes sets it (`leaving.js`). */
export const leaving = { mayLeave: () => true, isAgreed: false };

/**
 * @typedef {Readonly<{path: readonly string[], params: URLSearchParams, arrival: number, isReturn: boolean}>} Address
 *   `arrival` counts the addresses to which a person went; an address that replaces another one is the same arrival.
 *   `isReturn` if the person came back: by "back" or "forward", by a link back, or by loading the page again.
 */
/** @typedef {Record<string, string | null | undefined>} Changes  `null`, `undefined` and `''` remove a parameter. */

/** How many pages an entry of the history remembers. */
const TRAIL_MAX = 10;

/** Lists that take over parameters from each other. */
const CARRIED = /** @type {Record<string, string[]>} */ ({
  traces: ['filter', 'oldest', 'newest', 'aside'], spans: ['filter', 'oldest', 'newest', 'aside'],
  sessions: ['filter', 'oldest', 'newest', 'aside'], users: ['oldest', 'newest'],
});

/** @param {{arrival: number, isReturn: boolean}} how  @returns {Address} */
function read({ arrival, isReturn }) {
  return { path: pathOf(location.pathname), params: new URLSearchParams(location.search), arrival, isReturn };
}

/** Whether the browser loads an address that it loaded before. */
function isLoadedAgain() {
  const [loading] = performance.getEntriesByType('navigation');
  return loading instanceof PerformanceNavigationTiming && loading.type !== 'navigate';
}

/** @param {string} pathname */
function pathOf(pathname) {
  const below = pathname.startsWith(ROOT.pathname) ? pathname.slice(ROOT.pathname.length) : '';
  const path = below.split('/').filter(Boolean).map(decodeURIComponent);
  return path.length ? path : [HOME];
}

/** The current address. */
export const address = signal(read({ arrival: 0, isReturn: isLoadedAgain() }));

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
 * Go to an address of the page. The entry of the history remembers the pages on the way to it, for links back to them.
 * @param {string} target  What `href` returned.
 * @param {{replace?: boolean, isReturn?: boolean}} [options]  `replace` does not add an entry for "back".
 */
export function navigate(target, { replace = false, isReturn = false } = {}) {
  if (target === location.pathname + location.search) return;
  const isSamePage = pathnameOf(target) === location.pathname;
  if (!isSamePage && !leaving.mayLeave()) return;
  const trail = replace || isSamePage ? pagesBefore() : [...pagesBefore(), location.pathname + location.search];
  const place = trail.findIndex((page) => pathnameOf(page) === pathnameOf(target));
  const before = (place === -1 ? trail : trail.slice(0, place)).slice(-TRAIL_MAX);
  history[replace ? 'replaceState' : 'pushState']({ trail: before }, '', target);
  address.value = read(replace ? address.peek() : { arrival: address.peek().arrival + 1, isReturn });
}

/**
 * Load the page anew at an address, unless unsaved changes keep the view.
 * @param {string} target  What `href` returned.
 * @param {() => void} prepare  Called once it is certain that the view is left.
 */
export function loadAnew(target, prepare) {
  if (!leaving.mayLeave()) return;
  leaving.isAgreed = true;
  prepare();
  location.assign(target);
}

/** The addresses of the pages on the way to this one, the first one first. No page is in it twice. @returns {string[]} */
function pagesBefore() {
  const { trail } = history.state ?? {};
  return Array.isArray(trail) ? trail.filter((page) => typeof page === 'string') : [];
}

/** @param {string} target */
function pathnameOf(target) {
  return target.split('?')[0] ?? '';
}

/**
 * The page from which this one was opened, as it was then; without one, the list of a view.
 * @param {string} view
 * @returns {{target: string, path: readonly string[]}}
 */
export function pageBefore(view) {
  const target = pagesBefore().at(-1);
  return target === undefined ? { target: href([view]), path: [view] } : { target, path: pathOf(pathnameOf(target)) };
}

/**
 * The filter and the time range of the list that is shown or was shown last: a list of another view takes them over.
 * @param {string} view
 * @returns {Changes}
 */
export function carriedTo(view) {
  const names = CARRIED[view];
  const { path, params } = address.value;
  const here = path.length === 1 && path[0] && CARRIED[path[0]] ? params : undefined;
  const before = pagesBefore().findLast((page) => {
    const [name = '', thing] = pathOf(pathnameOf(page));
    return thing === undefined && CARRIED[name];
  });
  const last = here ?? (before === undefined ? undefined : new URLSearchParams(before.split('?')[1]));
  return last && names ? Object.fromEntries(names.map((name) => [name, last.get(name)])) : {};
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
    const before = address.peek();
    const now = read({ arrival: before.arrival + 1, isReturn: true });
    const isSame = href(before.path, before.params) === href(now.path, now.params);
    if (isSame || leaving.mayLeave()) address.value = now;
    else history.pushState(event.state, '', href(before.path, before.params));
  });
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || event.defaultPrevented || event.button !== 0 || link.target) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(ROOT.pathname)) return;
    event.preventDefault();
    navigate(link.pathname + link.search, { isReturn: link.rel === 'prev' });
  });
}
