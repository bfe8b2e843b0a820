/** A quick filter next to a value of a span: it leads to the list of all spans that have the value, or another. */
import { html } from 'htm/preact';
import { href, navigate } from '../../app/address.js';
import { ALL_TIME } from '../../components/time_range.js';
import { FilterButton } from '../../components/value_menu.js';

/** @typedef {import('../../app/filter.js').Condition} Condition */

/** The list of the spans that fulfil conditions, of all time; or of their traces. @param {Condition[]} conditions @param {'spans' | 'traces'} view */
export function spansHref(conditions, view = 'spans') {
  return href([view], { filter: JSON.stringify({ conditions }), oldest: ALL_TIME });
}

/** @param {{condition: Condition}} props */
export function SpanFilter({ condition }) {
  const quick = { condition, text: String(condition.value ?? ''), any: true };
  return html`<${FilterButton} quick=${quick} add=${(/** @type {Condition[]} */ conditions) => navigate(spansHref(conditions))} />`;
}
