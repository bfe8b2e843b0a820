/**
 * Feedback: annotations, traces of one span that link to the span that they are about (docs/feedback.md). The API has
 * accepted one when Kafka has it, and returns it a moment later: until then it is shown as it was accepted, and marked.
 */
import { signal } from '@preact/signals';
import { ApiError, call, post, write } from './api.js';
import { slugOf } from './slug.js';
import { isObject, objectsOf, textOf } from './spans.js';

/** @typedef {{trace_id: string, span_id: string}} SpanIds */
/**
 * @typedef {SpanIds & {created_at?: string, origin?: string, data?: Record<string, any>, meta?: Record<string, any>,
 *   references?: Record<string, any>, links?: unknown}} Feedback
 */
/**
 * @typedef {{about: string, feedback: Feedback | null, isStored: boolean, problem: string | null, coordinates: string | null}} Change
 *   What this page changed: the feedback as it was accepted, `null` if it was deleted, and what it is about.
 */
/** @typedef {{name: string, kind: 'thumb' | 'number' | 'label' | 'text', choices?: string[], isRequired: boolean}} Field */
/** @typedef {{slug: string, name: string, fields: Field[]}} Evaluator */

export const THUMB = 'thumb';
export const COMMENT = 'comment';
const FEEDBACK_URI = 'agenta:custom:feedback:v0';
const LISTED_MAX = 100;
const EVALUATORS_MAX = 200;
const OWN_MAX = 500;
const NOT_THERE = 'the API does not return it. Somebody may have deleted it, or it is a dead letter.';
const OWN_ITEM = 'clearspan-feedback';
const AUTHOR_ITEM = 'clearspan-author';
const KINDS = /** @type {const} */ ({ boolean: 'thumb', number: 'number', integer: 'number', string: 'text' });
/** The type of a value in JSON, by the kind of its field. */
export const TYPES = { thumb: 'boolean', number: 'number', label: 'string', text: 'string' };

/** What this page changed, by the id of the feedback. */
export const changes = signal(/** @type {ReadonlyMap<string, Change>} */ (new Map()));

/** Rises when a change is stored, so that views which show scores load again. */
export const storedCount = signal(0);

/** @param {SpanIds} span */
export function keyOf({ trace_id, span_id }) {
  return `${trace_id}/${span_id}`;
}

/**
 * Why this feedback cannot be changed now, if the key may: the API changes what is stored.
 * @param {{change?: Change} | undefined} feedback
 */
export function waitingReason(feedback) {
  return feedback?.change && !feedback.change.isStored ? (feedback.change.problem ? 'It is not stored yet.' : 'It is being stored.') : null;
}

/** @param {SpanIds} span @param {AbortSignal} abort  @returns {Promise<Feedback[]>} */
export async function loadFeedback({ trace_id, span_id }, abort) {
  const links = [{ trace_id, span_id }];
  return (await post('annotations/query', { annotation: { links }, windowing: { limit: LISTED_MAX } }, abort)).annotations;
}

/**
 * Feedback as the API returned it, with what this page changed since.
 * @param {Feedback[]} loaded
 * @param {SpanIds} span
 * @returns {(Feedback & {change?: Change})[]}
 */
export function withChanges(loaded, span) {
  const own = [...changes.value].filter(([, change]) => change.about === keyOf(span));
  const byId = new Map(own);
  const added = own.flatMap(([id, { feedback }]) => (feedback && !loaded.some((one) => one.trace_id === id) ? [feedback] : []));
  return [...added.toReversed(), ...loaded].flatMap((one) => {
    const change = byId.get(one.trace_id);
    if (!change) return [one];
    if (change.feedback === null) return [];
    return [{ ...(change.isStored && (one.created_at ?? '') > (change.feedback.created_at ?? '') ? one : change.feedback), change }];
  });
}

/** @param {SpanIds} span @param {Evaluator} evaluator @param {Record<string, unknown>} outputs */
export async function give(span, evaluator, outputs) {
  await createEvaluator(evaluator);
  const { trace_id, span_id } = span;
  const annotation = {
    origin: 'human', channel: 'web', data: { outputs }, ...(author.value ? { meta: { author: author.value } } : {}),
    references: { evaluator: { slug: evaluator.slug } }, links: { invocation: { trace_id, span_id } },
  };
  const { answer, coordinates } = await write('POST', 'annotations/', { annotation });
  keep(OWN_ITEM, JSON.stringify([answer.annotation.trace_id, ...ownIds()].slice(0, OWN_MAX)));
  follow(keyOf(span), answer.annotation, coordinates);
}

/** @param {SpanIds} span @param {Feedback} feedback @param {Record<string, unknown>} outputs */
export async function edit(span, feedback, outputs) {
  const annotation = { data: { ...feedback.data, outputs } };
  const { answer, coordinates } = await write('PATCH', `annotations/${feedback.trace_id}`, { annotation });
  if (!answer.annotation) throw new ApiError('This feedback is not stored any more: somebody has deleted it.');
  const { created_at: _before, ...edited } = answer.annotation;
  follow(keyOf(span), edited, coordinates);
}

/** @param {SpanIds} span @param {Feedback} feedback */
export async function remove(span, feedback) {
  const { count } = await call('DELETE', `annotations/${feedback.trace_id}`);
  if (!count) throw new ApiError('This feedback is not stored any more, so nothing was deleted. Load the page again to see what is stored.');
  setChange(feedback.trace_id, { about: keyOf(span), feedback: null, isStored: true, problem: null, coordinates: null });
  storedCount.value += 1;
}

/**
 * Show what was accepted, and look for it until it is stored.
 * @param {string} about
 * @param {Feedback} feedback
 * @param {string | null} coordinates
 */
export async function follow(about, feedback, coordinates) {
  const { trace_id, span_id } = feedback;
  const change = { about, feedback, isStored: false, problem: null, coordinates };
  setChange(trace_id, change);
  const finish = (/** @type {Change} */ end) => {
    if (changes.value.get(trace_id) === change) setChange(trace_id, end); // else it was changed again meanwhile
  };
  try {
    const { annotations } = await post('annotations/query', { annotation_links: [{ trace_id, span_id }] }, undefined, coordinates);
    if (annotations.length === 0) throw new ApiError(NOT_THERE);
    finish({ ...change, feedback: annotations[0], isStored: true });
    storedCount.value += 1;
  } catch (error) {
    finish({ ...change, problem: /** @type {Error} */ (error).message });
  }
}

/** @param {string} id @param {Change} change */
function setChange(id, change) {
  changes.value = new Map([...changes.value, [id, change]]);
}

/**
 * Create the evaluator of new feedback, unless there is one. Only its score is required, so that feedback with a comment
 * and without one matches its schema. A key that may not create it gives feedback all the same: the API creates it then.
 * @param {Evaluator} evaluator
 */
async function createEvaluator({ slug, name, fields }) {
  if ((await post('simple/evaluators/query', { evaluator: { slug } })).count) return;
  const properties = Object.fromEntries(fields.map((field) => [field.name, { type: TYPES[field.kind] }]));
  const required = fields.filter(({ isRequired }) => isRequired).map((field) => field.name);
  const outputs = { type: 'object', required: ['outputs'], properties: { outputs: { type: 'object', properties, required } } };
  try {
    await post('simple/evaluators/', { evaluator: { slug, name, data: { uri: FEEDBACK_URI, schemas: { outputs } } } });
  } catch (error) {
    if (!(error instanceof ApiError && [403, 409].includes(error.status))) throw error; // 409: somebody created it meanwhile
  }
}

/** The evaluators of feedback, and names of other scores that occur, each as an evaluator that may be new. @param {AbortSignal} abort */
export async function loadEvaluators(abort) {
  const exists = { conditions: [{ field: 'scores', operator: 'exists' }] };
  const [{ evaluators }, facets] = await Promise.all([
    post('simple/evaluators/query', { windowing: { limit: EVALUATORS_MAX } }, abort),
    post('spans/facets/query', { filtering: exists, limit: LISTED_MAX }, abort).catch(() => ({})), // only suggestions
  ]);
  const known = objectsOf(evaluators).map(readEvaluator).filter(({ fields }) => fields.length);
  const taken = new Set(known.flatMap(({ fields }) => fields.map(({ name }) => name)));
  const others = objectsOf(facets.scores).filter(({ name }) => !taken.has(name))
    .map(({ name, types }) => newEvaluator(name, types?.includes('number') ? 'number' : 'label'));
  return [...known, ...others];
}

/** @param {string} name @param {Field['kind']} kind  @returns {Evaluator} */
export function newEvaluator(name, kind) {
  const fields = /** @type {Field[]} */ ([{ name, kind, isRequired: true }]);
  if (name !== COMMENT) fields.push({ name: COMMENT, kind: 'text', isRequired: false });
  return { slug: slugOf(name), name, fields };
}

/** @param {Record<string, any>} evaluator  @returns {Evaluator} */
function readEvaluator({ slug, name, data }) {
  const outputs = data?.schemas?.outputs?.properties?.outputs;
  const required = Array.isArray(outputs?.required) ? outputs.required : [];
  const fields = Object.entries(isObject(outputs?.properties) ? outputs.properties : {}).flatMap(([field, schema]) => {
    const choices = Array.isArray(schema?.enum) ? schema.enum.filter((/** @type {unknown} */ one) => typeof one === 'string') : [];
    const kind = choices.length ? 'label' : KINDS[/** @type {keyof typeof KINDS} */ (schema?.type)];
    const isRequired = required.includes(field);
    return kind ? [{ name: field, kind, isRequired, ...(choices.length ? { choices } : {}) }] : [];
  });
  return { slug: textOf(slug), name: textOf(name) || textOf(slug), fields: /** @type {Field[]} */ (fields) };
}

/** @param {Feedback} feedback  @returns {Record<string, any>} */
export function outputsOf({ data }) {
  return isObject(data?.outputs) ? data.outputs : data?.outputs === undefined ? {} : { outputs: data.outputs };
}

/** Who gave it: a name, if there is one. @param {Feedback} feedback */
export function authorOf({ meta }) {
  return textOf(meta?.author);
}

/** Whether it was given in this browser. @param {Feedback} feedback */
export function isOwn({ trace_id }) {
  return ownIds().includes(trace_id);
}

/** @returns {string[]} */
function ownIds() {
  try {
    const ids = JSON.parse(localStorage.getItem(OWN_ITEM) ?? '[]');
    return Array.isArray(ids) ? ids : [];
  } catch {
    return [];
  }
}

/** The name under which feedback is given; this browser remembers it. */
export const author = signal(storedAuthor());

function storedAuthor() {
  try {
    return localStorage.getItem(AUTHOR_ITEM) ?? '';
  } catch {
    return '';
  }
}

/** @param {string} name */
export function setAuthor(name) {
  author.value = name;
  keep(AUTHOR_ITEM, name);
}

/** @param {string} item @param {string} text */
function keep(item, text) {
  try {
    localStorage.setItem(item, text);
  } catch { /* kept until the page is closed */ }
}
