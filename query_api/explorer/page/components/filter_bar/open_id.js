/** Where the id of a trace or of a span leads that somebody pasted. */
import { href } from '../../app/address.js';
import { post } from '../../app/api.js';
import { ALL_TIME } from '../time_range.js';

/** @typedef {import('../../app/filter.js').Condition} Condition */

/**
 * The address of the trace or the span with an id, of any time; of the list of the spans if several have it.
 * @param {Condition} id  A condition on `trace_id` or `span_id`.
 * @returns {Promise<string | null>}  `null` if nothing that is stored has it.
 */
export async function addressOf(id) {
  const filtering = { conditions: [id] };
  const { spans: [found, another] } = await post('spans/query', { filtering, windowing: { limit: 2 } });
  if (!found) return null;
  if (id.field === 'trace_id') return href(['traces', found.trace_id]);
  return another ? href(['spans'], { filter: JSON.stringify(filtering), oldest: ALL_TIME }) : href(['traces', found.trace_id], { span: found.span_id });
}
