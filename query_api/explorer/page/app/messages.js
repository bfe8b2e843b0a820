/** The messages of a model call, and which of them another call had too. */
import { attribute, objectsOf } from './spans.js';

/** @typedef {{side: 'input' | 'output', message: Record<string, any>}} Turn */

const COMPARED = ['role', 'content', 'parts', 'tool_calls', 'tool_call_id'];

/**
 * What went in, then what came out; of an agent that says neither as messages, the conversation that it kept. An output
 * that is a text is the answer.
 * @param {import('./spans.js').Span} span
 * @returns {Turn[]}
 */
export function messagesOf(span) {
  const inputs = turnsOf(attribute(span, 'ag.data.inputs.messages'), 'input');
  const outputs = turnsOf(attribute(span, 'ag.data.outputs.messages'), 'output');
  const kept = inputs.length + outputs.length ? inputs : turnsOf(attribute(span, 'ag.data.internals.messages'), 'input');
  const answer = attribute(span, 'ag.data.outputs');
  const isNew = typeof answer === 'string' && answer !== '' && answer !== kept.at(-1)?.message.content;
  return kept.length && isNew ? [...kept, { side: 'output', message: { role: 'assistant', content: answer } }] : [...kept, ...outputs];
}

/** @param {any} messages @param {'input' | 'output'} side @returns {Turn[]} */
function turnsOf(messages, side) {
  return objectsOf(messages).map((message) => ({ side, message }));
}

/**
 * How many messages two conversations share, from the first one. A call of a tool stays with a result that is new.
 * @param {Turn[]} turns
 * @param {Turn[]} before
 */
export function repeatsOf(turns, before) {
  const inputs = turns.filter(({ side }) => side === 'input');
  let count = 0;
  while (count < inputs.length && count < before.length && isSame(inputs[count], before[count])) count += 1;
  while (count > 0 && inputs[count]?.message.role === 'tool') count -= 1;
  return count;
}

/** @param {Turn | undefined} one @param {Turn | undefined} other */
function isSame(one, other) {
  return COMPARED.every((name) => JSON.stringify(one?.message[name]) === JSON.stringify(other?.message[name]));
}
