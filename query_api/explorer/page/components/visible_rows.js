/** Which rows of a long list are visible: only these are in the document. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

const ROWS_AROUND = 15;

/**
 * @param {number} count
 * @param {number} rowHeight  Pixels.
 * @param {string} head  Selector of the header that covers the top of the list.
 */
export function useVisibleRows(count, rowHeight, head) {
  const scroller = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  /** @param {number} pixels */
  const scrollTo = (pixels) => {
    if (!scroller.current) return;
    scroller.current.scrollTop = pixels;
    setTop(scroller.current.scrollTop);
  };
  /** @param {number} row */
  const scrollToRow = (row) => {
    const element = scroller.current;
    if (!element) return;
    const covered = element.querySelector(head)?.clientHeight ?? 0;
    const at = row * rowHeight;
    if (at < element.scrollTop) element.scrollTop = at;
    if (at + rowHeight + covered > element.scrollTop + element.clientHeight) {
      element.scrollTop = at + rowHeight + covered - element.clientHeight;
    }
  };
  return {
    scroller,
    first: Math.max(0, Math.floor(top / rowHeight) - ROWS_AROUND),
    last: Math.min(count, Math.ceil((top + height) / rowHeight) + ROWS_AROUND),
    onScroll: () => setTop(scroller.current?.scrollTop ?? 0),
    scrollTo,
    scrollToRow,
  };
}
