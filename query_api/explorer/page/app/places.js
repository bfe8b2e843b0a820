/**
 * Where lists were left, by their addresses: the row at the top of what was visible. Kept for the browser session, so that
 * a list that a person comes back to stands as it was.
 */

const ITEM = 'clearspan-places';
const PLACES_MAX = 50;

/**
 * @typedef {{top: string, offset: number, index: number, count: number, cursor: string | null}} Place
 *   `top` is the key of the row, `offset` how many pixels of it are hidden, `index` its number and `count` how many rows
 *   the list had down to the last visible one. `cursor` is the key of the row that was selected.
 */

/** @returns {Map<string, Place>} */
function stored() {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(ITEM) ?? '[]'));
  } catch {
    return new Map(); // storage is switched off, or holds something else
  }
}

/** @param {string} href  @returns {Place | undefined} */
export function placeOf(href) {
  return stored().get(href);
}

/** @param {string} href  @param {Place} place */
export function keepPlace(href, place) {
  const others = [...stored()].filter(([other]) => other !== href);
  keep([...others, [href, place]].slice(-PLACES_MAX));
}

/** Forget all places, as they name rows of a project. */
export function forgetPlaces() {
  keep([]);
}

/** @param {unknown[]} places */
function keep(places) {
  try {
    sessionStorage.setItem(ITEM, JSON.stringify(places));
  } catch { /* lists begin at their top */ }
}
