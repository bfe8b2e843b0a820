/**
 * Which columns a list shows, and in which order. The address holds it (`columns=time,cost,attributes.tenant`), so that a
 * shared list looks the same; this browser remembers the last choice of a person for lists that are opened without.
 */
import { useLayoutEffect } from 'preact/hooks';
import { param, setParams } from '../../app/address.js';
import { remember, remembered } from '../../app/remembered.js';
import { SHOWN_FIRST } from './columns.js';

const COLUMNS_MAX = 40;
const NAME_MAX = 300;
const BETWEEN = ',';

/**
 * @param {string} list
 * @returns {[string[], (names: string[] | null) => void]}  The names of the columns in order without the first, which
 *   always stands, and what changes them; `null` is the usual ones.
 */
export function useLayout(list) {
  const item = `columns-${list}`;
  const text = param('columns');
  useLayoutEffect(() => {
    const chosen = namesIn(remembered(item));
    if (text === null && chosen) setParams({ columns: written(chosen) }, { replace: true });
  }, [list, text === null]);
  /** @param {string[] | null} names */
  const change = (names) => {
    remember(item, names);
    setParams({ columns: names && written(names) }, { replace: true });
  };
  const usual = SHOWN_FIRST[list] ?? [];
  return [text === null ? usual : namesIn(text.split(BETWEEN).map(decoded)) ?? usual, change];
}

/** @param {unknown} value  @returns {string[] | null} */
function namesIn(value) {
  if (!Array.isArray(value)) return null;
  const names = value.filter((name) => typeof name === 'string' && name !== '' && name.length <= NAME_MAX);
  return names.length ? [...new Set(names)].slice(0, COLUMNS_MAX) : null;
}

/** @param {string[]} names */
function written(names) {
  return names.map((name) => name.replace(/[%,]/g, encodeURIComponent)).join(BETWEEN);
}

/** @param {string} name */
function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
