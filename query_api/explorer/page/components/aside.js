/**
 * Annotations and the traces that `clearspan audit` sends are no runs of an application: lists leave them out, unless the
 * address says otherwise (`aside=1`) or the filter is about them.
 */
import { html } from 'htm/preact';
import { param, setParams } from '../app/address.js';
import { withCondition } from '../app/filter.js';

/** @typedef {import('../app/filter.js').Filter} Filter */
/** @typedef {import('../app/filter.js').Condition} Condition */

/** `service.name` of the spans of `clearspan audit`. */
const AUDIT_SERVICE = 'clearspan-audit';

/** An annotation names an evaluator; the API also takes other traces with links for annotations, such as those of queues. */
const IS_ANNOTATION = [
  { field: 'trace_type', operator: 'is', value: 'annotation' },
  { field: 'references', operator: 'in', value: [{ attributes: { key: 'evaluator' } }] },
];

/** What is left out, by the field of a filter that is about it. */
const LEFT_OUT = /** @type {[string, Condition | Filter][]} */ ([
  ['trace_type', { operator: 'nand', conditions: IS_ANNOTATION }],
  ['service', { field: 'service', operator: 'is_not', value: AUDIT_SERVICE }],
]);

/** Whether the list also shows them. */
export function showsAside() {
  return param('aside') === '1';
}

/**
 * The filter of what a list shows.
 * @param {Filter} filter  Of the address.
 * @returns {Filter}
 */
export function withoutAside(filter) {
  if (showsAside()) return filter;
  const fields = new Set(fieldsOf(filter));
  return LEFT_OUT.filter(([field]) => !fields.has(field)).reduce((all, [, member]) => withCondition(all, member), filter);
}

/** @param {Filter} filter  @returns {string[]} */
function fieldsOf({ conditions }) {
  return conditions.flatMap((member) => ('field' in member ? [member.field] : fieldsOf(member)));
}

export function AsideSwitch() {
  const isOn = showsAside();
  return html`<button class="switch ${isOn ? 'on' : ''}" role="switch" aria-checked=${isOn} onClick=${() => setParams({ aside: isOn ? null : '1' })}
    title="Show annotations and the traces of clearspan audit too"><span class="knob"></span>Annotations, audits</button>`;
}
