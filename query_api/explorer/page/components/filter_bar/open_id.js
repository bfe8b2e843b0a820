/** A trace id or a span id that somebody pasted: where it leads. */
import { href } from '../../app/address.js';
import { post } from '../../app/api.js';
import { ALL_TIME } from '../time_range.js';

const TRACE_ID_DIGITS = 32;
const SPAN_ID_DIGITS = 16;

/** The address of a trace in an explorer, or of a span in it. */
const ADDRESS = /^https?:\/\/\S+\/traces\/([0-9a-f]{32})(?:\?(?:\S*&)?span=([0-9a-f]{16})\b\S*|[?#]\S*)?$/;

/**
 * The digits of an id in any spelling: upper case, with dashes, after `0x`, in braces, as `urn:uuid:`, in an address.
 * @param {string} text
 * @returns {string | null}  32 or 16 hexadecimal digits, or `null` if the text is no id.
 */
export function idIn(text) {
  const [, traceId, spanId] = ADDRESS.exec(text.trim()) ?? [];
  if (traceId) return spanId ?? traceId;
  const bare = text.trim().toLowerCase().replace(/^(?:urn:)?(?:uuid:)?\{?(?:0x)?|\}$/g, '').replaceAll('-', '');
  return /^[0-9a-f]+$/.test(bare) && [TRACE_ID_DIGITS, SPAN_ID_DIGITS].includes(bare.length) ? bare : null;
}

/**
 * The address of the trace or the span with an id, of any time; of the list of the spans if several have it.
 * @param {string} id  What `idIn` returned.
 * @returns {Promise<string | null>}  `null` if nothing that is stored has it.
 */
export async function addressOf(id) {
  if (id.length === TRACE_ID_DIGITS) {
    const [found] = await spansWith('trace_id', id);
    return found ? href(['traces', found.trace_id]) : null;
  }
  const [found, another] = await spansWith('span_id', id);
  if (another) return href(['spans'], { filter: JSON.stringify({ conditions: [withId('span_id', id)] }), oldest: ALL_TIME });
  return found ? href(['traces', found.trace_id], { span: found.span_id }) : null;
}

/** @param {'trace_id' | 'span_id'} field @param {string} id @returns {Promise<any[]>} */
async function spansWith(field, id) {
  const answer = await post('spans/query', { filtering: { conditions: [withId(field, id)] }, windowing: { limit: 2 } });
  return answer.spans ?? [];
}

/** @param {'trace_id' | 'span_id'} field @param {string} id */
function withId(field, id) {
  return { field, operator: 'is', value: id };
}
