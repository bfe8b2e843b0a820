/**
 * What a model call repeats: agents and chats send the whole conversation again with every call. The messages that the
 * call before it had sent and received are folded.
 */
import { post } from '../../app/api.js';
import { messagesOf, repeatsOf } from '../../app/messages.js';
import { sessionOf } from '../../app/spans.js';

const FEW = 3;
const CALLS_MAX = 3;
const WAIT_MS = 700;

/**
 * How many messages of a call, from the first one, the call before it had too; 0 if that takes long to find.
 * @param {import('../../app/spans.js').Span} span
 * @param {AbortSignal} abort
 */
export async function loadRepeats(span, abort) {
  const turns = messagesOf(span);
  if (turns.filter(({ side }) => side === 'input').length < FEW) return 0;
  const session = sessionOf(span);
  const conditions = [
    session ? { field: 'session', operator: 'is', value: session } : { field: 'trace_id', operator: 'is', value: span.trace_id },
    { field: 'span_type', operator: 'is', value: span.span_type },
    { field: 'attributes', key: 'ag.data.inputs.messages', operator: 'exists' },
  ];
  const before = { filtering: { conditions }, windowing: { newest: span.start_time, limit: CALLS_MAX } };
  const inTime = AbortSignal.any([abort, AbortSignal.timeout(WAIT_MS)]);
  const { spans } = await post('spans/query', before, inTime).catch(() => ({ spans: [] }));
  return Math.max(0, ...spans.map((/** @type {any} */ other) => (other.span_id === span.span_id ? 0 : repeatsOf(turns, messagesOf(other)))));
}
