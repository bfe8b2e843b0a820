/**
 * Message spans, which only pass on a message, can be folded: the spans below one then stand below the nearest span above
 * that is shown. The address says whether they are (`fold=1`), and this browser remembers what a person chose last.
 */
import { html } from 'htm/preact';
import { useLayoutEffect, useMemo } from 'preact/hooks';
import { param, setParams } from '../../app/address.js';
import { number } from '../../app/format.js';
import { treeOf, walk } from './outline.js';

const ITEM = 'clearspan-fold-messages';

/** @typedef {import('./outline.js').Outline} Outline */

/**
 * @param {Outline} outline
 * @param {number} selected  Stays visible.
 * @returns {{shown: Outline, foldedCount: number}}  `shown` has the indices of `outline`.
 */
export function useFold(outline, selected) {
  const isFolded = param('fold') === '1';
  const kept = outline.messages.has(selected) ? selected : -1;
  useLayoutEffect(() => {
    if (param('fold') === null && outline.messages.size && isChosen()) setParams({ fold: '1' }, { replace: true });
  }, [outline, isFolded]);
  return useMemo(() => (isFolded ? fold(outline, kept) : { shown: outline, foldedCount: 0 }), [outline, isFolded, kept]);
}

/** @param {{outline: Outline, foldedCount: number}} props */
export function FoldSwitch({ outline, foldedCount }) {
  if (!outline.messages.size) return null;
  const isFolded = param('fold') === '1';
  const toggle = () => {
    choose(!isFolded);
    setParams({ fold: isFolded ? null : '1' }, { replace: true });
  };
  return html`<p class="fold">
    <button class="quiet" role="switch" aria-checked=${isFolded} onClick=${toggle}
      title="Hide spans that only pass on a message: of type task, with attributes messaging.*, and without inputs, outputs, usage and an error; and of MCP, if they repeat the call of the span above">
      <span class="fold-knob"></span>Fold message spans</button>
    <span class="soft" role="status">${isFolded ? `${number(foldedCount)} ${foldedCount === 1 ? 'span' : 'spans'} folded` : ''}</span>
  </p>`;
}

/**
 * Spans at the top level stay, and so does `kept`.
 * @param {Outline} outline
 * @param {number} kept
 */
function fold(outline, kept) {
  const hidden = new Set(outline.messages);
  for (const index of [...outline.roots, kept]) hidden.delete(index);
  const parent = outline.parent.slice();
  for (const index of walk(outline.roots, outline.children)) { // parents first, so that of a hidden one is a shown span
    const above = parent[index] ?? -1;
    if (hidden.has(above)) parent[index] = parent[above] ?? -1;
  }
  return { shown: { ...outline, ...treeOf(parent, (index) => hidden.has(index), outline.isError) }, foldedCount: hidden.size };
}

function isChosen() {
  try {
    return localStorage.getItem(ITEM) === '1';
  } catch {
    return false;
  }
}

/** @param {boolean} isFolded */
function choose(isFolded) {
  try {
    if (isFolded) localStorage.setItem(ITEM, '1');
    else localStorage.removeItem(ITEM);
  } catch { /* the choice is in the address alone */ }
}
