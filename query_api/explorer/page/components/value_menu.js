/**
 * Quick filters from any value: show only rows that have it, or only others. A button next to a value opens the one menu,
 * which stands above everything, so that no list cuts it off.
 */
import { html } from 'htm/preact';
import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { CopyButton } from './copy.js';

/** @typedef {import('../app/filter.js').Condition} Condition */
/**
 * @typedef {object} Quick
 * @property {Condition} condition  Fulfilled by rows that have the value.
 * @property {string} text  The value, as a person reads it.
 * @property {Condition[]} [others]  Fulfilled by rows that have another value; `[]` if no filter says that.
 * @property {boolean} [any]  Whether to offer all rows that have any value.
 */

const MARGIN = 8;

const opened = signal(/** @type {{quick: Quick, add: (conditions: Condition[]) => void, from: HTMLElement} | null} */ (null));

/** @param {{quick: Quick, add: (conditions: Condition[]) => void}} props */
export function FilterButton({ quick, add }) {
  /** @param {MouseEvent} event */
  const open = (event) => {
    event.preventDefault();
    event.stopPropagation();
    opened.value = { quick, add, from: /** @type {HTMLElement} */ (event.currentTarget) };
  };
  return html`<button class="quiet filter-value" aria-haspopup="menu"
    aria-label="Filter by ${quick.text}" title="Filter by this value" onClick=${open}>⋯</button>`;
}

/** The menu of the button that was pressed last. It is once on the page. */
export function ValueMenu() {
  return opened.value && html`<${OpenMenu} key=${opened.value.quick.text} ...${opened.value} />`;
}

/** @param {{quick: Quick, add: (conditions: Condition[]) => void, from: HTMLElement}} props */
function OpenMenu({ quick, add, from }) {
  const menu = useRef(/** @type {HTMLDivElement | null} */ (null));
  const { condition, text, others = [{ ...condition, operator: 'is_not' }], any = false } = quick;
  const close = () => {
    opened.value = null;
    if (from.isConnected) from.focus();
  };
  useLayoutEffect(() => {
    const element = menu.current;
    if (!element) return;
    const [box, { width, height }] = [from.getBoundingClientRect(), element.getBoundingClientRect()];
    element.style.left = `${Math.max(MARGIN, Math.min(box.left, innerWidth - width - MARGIN))}px`;
    element.style.top = `${box.bottom + height + MARGIN > innerHeight ? box.top - height : box.bottom}px`;
    element.querySelector('button')?.focus();
  }, []);
  useEffect(() => {
    /** @param {Event} event */
    const closeOutside = (event) => { if (!menu.current?.contains(/** @type {Node} */ (event.target))) opened.value = null; };
    addEventListener('pointerdown', closeOutside);
    return () => removeEventListener('pointerdown', closeOutside);
  }, []);
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    event.stopPropagation(); // the list below has keys of its own
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const items = [...menu.current?.querySelectorAll('button') ?? []];
    if (step !== undefined) {
      event.preventDefault();
      items.at((items.findIndex((item) => item === document.activeElement) + step) % items.length)?.focus();
    } else if (event.key === 'Escape' || event.key === 'Tab') {
      event.preventDefault();
      close();
    }
  };
  /** @param {Condition[]} conditions */
  const choose = (conditions) => {
    close();
    add(conditions);
  };
  return html`<div class="panel floating" ref=${menu} role="group" aria-label="Filter by ${text}" onKeyDown=${onKeyDown}>
    <button class="item" onClick=${() => choose([condition])}>Only this</button>
    ${others.length > 0 && html`<button class="item" onClick=${() => choose(others)}>Not this</button>`}
    ${any && html`<button class="item" onClick=${() => choose([withoutValue(condition)])}>Any value</button>`}
    <${CopyButton} text=${text} label="Copy value" />
  </div>`;
}

/** @param {Condition} condition  @returns {Condition} */
function withoutValue({ value: _value, ...condition }) {
  return { ...condition, operator: 'exists' };
}
