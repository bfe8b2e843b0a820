/** How two texts stand: side by side, or one above the other. The choice is in the address. */
import { html } from 'htm/preact';
import { param, setParams } from '../../app/address.js';

const NARROW = matchMedia('(max-width: 720px)');

/** @typedef {'columns' | 'rows'} Layout */

/** @type {[Layout, string][]} */
const LAYOUTS = [['columns', 'Side by side'], ['rows', 'One above the other']];

/** The layout of the address; without one, that which fits the width of the page. @returns {Layout} */
export function currentLayout() {
  const named = LAYOUTS.find(([name]) => name === param('layout'));
  return named ? named[0] : NARROW.matches ? 'rows' : 'columns';
}

export function LayoutSwitch() {
  const current = currentLayout();
  return html`<div class="switch" role="group" aria-label="Layout of texts">
    ${LAYOUTS.map(([name, title]) => html`<button aria-pressed=${name === current} onClick=${() => setParams({ layout: name }, { replace: true })}>${title}</button>`)}
  </div>`;
}
