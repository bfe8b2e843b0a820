/** Lets a list stand where it was left when a person comes back to it, and at its top when they go to another one. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { address, href } from '../app/address.js';
import { keepPlace, placeOf } from '../app/places.js';

/** @typedef {import('../app/places.js').Place} Place */

/** Where the list of the address was left, if a person came back to it. */
export function placeToReturnTo() {
  const { path, params, isReturn } = address.value;
  return isReturn ? placeOf(href(path, params)) : undefined;
}

/**
 * @template T
 * @param {{rows: readonly T[], keyOf: (row: T) => string, rowHeight: number, isOld: boolean, more?: () => void,
 *   scroller: {current: HTMLElement | null}, scrollTo: (top: number) => void}} list
 *   `isOld` while the rows are those of another address. `more` loads further rows; none if all are there.
 * @returns {[number, (row: number) => void]}  The number of the selected row, -1 if none is, and what selects one.
 */
export function useKeptPlace(list) {
  const { arrival, path, params } = address.value;
  const [cursor, showCursor] = useState(-1);
  const here = useRef({ ...list, cursor, href: '', arrival: -1 });
  /** @param {number} row */
  const setCursor = (row) => {
    here.current.cursor = row;
    showCursor(row);
  };
  useLayoutEffect(() => {
    const leave = () => keep(here.current, arrival);
    addEventListener('pagehide', leave);
    return () => {
      removeEventListener('pagehide', leave);
      leave();
    };
  }, [arrival]);
  useLayoutEffect(() => {
    Object.assign(here.current, list, { href: href(path, params) });
    if (here.current.arrival === arrival || list.isOld || list.rows.length === 0) return;
    const place = placeToReturnTo();
    const top = place ? rowOf(list, place.top) : 0;
    if (place && top === -1 && list.more && list.rows.length < place.count) return list.more();
    here.current.arrival = arrival;
    list.scrollTo(place ? (top === -1 ? place.index : top) * list.rowHeight + place.offset : 0);
    setCursor(place?.cursor ? rowOf(list, place.cursor) : -1);
  });
  return [cursor, setCursor];
}

/** @param {{rows: readonly any[], keyOf: (row: any) => string}} list  @param {string} key */
function rowOf({ rows, keyOf }, key) {
  return rows.findIndex((row) => keyOf(row) === key);
}

/**
 * Keep the place of a list that is left, unless its rows never came.
 * @param {{rows: readonly any[], keyOf: (row: any) => string, rowHeight: number, scroller: {current: HTMLElement | null},
 *   cursor: number, href: string, arrival: number}} list
 * @param {number} arrival
 */
function keep({ rows, keyOf, rowHeight, scroller, ...list }, arrival) {
  const element = scroller.current;
  if (!element || list.arrival !== arrival) return;
  const index = Math.min(rows.length - 1, Math.floor(element.scrollTop / rowHeight));
  const count = Math.min(rows.length, Math.ceil((element.scrollTop + element.clientHeight) / rowHeight));
  const selected = rows[list.cursor];
  keepPlace(list.href, {
    top: keyOf(rows[index]), offset: element.scrollTop - index * rowHeight, index, count, cursor: selected ? keyOf(selected) : null,
  });
}
