/** Give feedback, or edit it: the name of a score, its value and a comment. What was typed stays until it was accepted. */
import { html } from 'htm/preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { author, COMMENT, edit, give, loadEvaluators, newEvaluator, outputsOf, setAuthor, THUMB, TYPES } from '../../app/feedback.js';
import { useLoaded } from '../../app/loading.js';
import { wordOf } from '../../app/scores.js';
import { ThumbIcon } from './thumbs.js';

/** @typedef {import('../../app/feedback.js').Field} Field */
/** @typedef {import('../../app/feedback.js').Evaluator} Evaluator */

const KINDS = /** @type {[Field['kind'], string][]} */ ([['thumb', 'Yes or no'], ['number', 'Number'], ['label', 'Label']]);

/**
 * @param {{span: import('../../app/feedback.js').SpanIds, feedback?: import('../../app/feedback.js').Feedback, close: () => void}} props
 *   `feedback` is what is edited.
 */
export function FeedbackForm({ span, feedback, close }) {
  const known = useLoaded(loadEvaluators, []);
  const [name, setName] = useState('');
  const [kind, setKind] = useState(/** @type {Field['kind']} */ ('thumb'));
  const [values, setValues] = useState(/** @type {Record<string, unknown>} */ ({})); // by the name and the type
  const valueOf = (/** @type {Field} */ field) => (keyOf(field) in values ? values[keyOf(field)] : feedback && outputsOf(feedback)[field.name]);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState(/** @type {string | null} */ (null));
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useEffect(() => form.current?.querySelector('input')?.focus(), []);
  const typed = name.trim() || THUMB;
  const named = (known.data ?? []).find((one) => [one.name, one.slug].includes(typed) || one.fields[0]?.name === typed);
  const evaluator = useMemo(() => named ?? newEvaluator(typed, name.trim() ? kind : 'thumb'), [named, typed, kind]);
  const slug = feedback?.references?.evaluator?.slug;
  const fields = feedback ? fieldsOf(feedback, known.data?.find((one) => one.slug === slug)) : evaluator.fields;
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const { outputs, missing } = outputsFrom(fields, valueOf, feedback ? outputsOf(feedback) : {});
    if (missing) return setProblem(missing);
    setSending(true);
    setProblem(null);
    try {
      if (feedback) await edit(span, feedback, outputs);
      else await give(span, evaluator, outputs);
      close();
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
      setSending(false);
    }
    return undefined;
  };
  return html`<form class="feedback-form card" ref=${form} aria-label=${feedback ? 'Edit feedback' : 'Give feedback'} onSubmit=${save}>
    ${!feedback && html`<label>Name <input name="name" list="score-names" autocomplete="off" placeholder=${THUMB} value=${name}
      onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
      <datalist id="score-names">${[...new Set((known.data ?? []).map((one) => one.name))].map((one) => html`<option value=${one} />`)}</datalist>`}
    ${!feedback && !named && name.trim() && html`<fieldset><legend>Kind of the new score</legend>
      ${KINDS.map(([value, title]) => html`<label class="choice"><input type="radio" name="kind" checked=${kind === value} onChange=${() => setKind(value)} /> ${title}</label>`)}</fieldset>`}
    ${fields.map((field) => html`<${FieldInput} key=${`${field.name} ${field.kind}`} field=${field} value=${valueOf(field)}
      change=${(/** @type {unknown} */ value) => setValues((before) => ({ ...before, [keyOf(field)]: value }))} />`)}
    ${!feedback && html`<label>Your name <input name="author" autocomplete="name" placeholder="not said" value=${author.value}
      onInput=${(/** @type {any} */ event) => setAuthor(event.target.value)} /></label>`}
    ${problem && html`<p class="error-text" role="alert">${problem}</p>`}
    <p class="actions"><button class="primary" disabled=${isSending}>${isSending ? 'Sending…' : 'Save'}</button>
      <button type="button" onClick=${close}>Cancel</button></p>
  </form>`;
}

/** What is typed for one type is no value of another. @param {Field} field */
function keyOf({ name, kind }) {
  return `${name} ${TYPES[kind]}`;
}

/** @param {{field: Field, value: unknown, change: (value: unknown) => void}} props */
function FieldInput({ field, value, change }) {
  const { name, kind, choices } = field;
  const onInput = (/** @type {any} */ event) => change(event.target.value);
  if (kind === 'thumb') {
    return html`<fieldset><legend>${name}</legend>${[true, false].map((isUp) => html`<label class="choice"><input type="radio" name=${`value ${name}`}
      checked=${value === isUp} onChange=${() => change(isUp)} /> <${ThumbIcon} isUp=${isUp} /> ${wordOf(name, isUp)}</label>`)}</fieldset>`;
  }
  if (choices) {
    return html`<label>${name} <select value=${value ?? ''} onChange=${onInput}><option value="">choose…</option>
      ${choices.map((choice) => html`<option value=${choice}>${choice}</option>`)}</select></label>`;
  }
  if (kind === 'text') return html`<label>${name} <textarea rows="3" value=${value ?? ''} onInput=${onInput}></textarea></label>`;
  return html`<label>${name} <input type=${kind === 'number' ? 'number' : 'text'} step="any" value=${value ?? ''} onInput=${onInput} /></label>`;
}

/**
 * The fields of feedback that is edited: those of its evaluator, and of what it holds.
 * @param {import('../../app/feedback.js').Feedback} feedback
 * @param {Evaluator | undefined} evaluator
 * @returns {Field[]}
 */
function fieldsOf(feedback, evaluator) {
  const known = evaluator?.fields ?? [];
  const kinds = /** @type {Record<string, Field['kind']>} */ ({ boolean: 'thumb', number: 'number', string: 'text' });
  const others = Object.entries(outputsOf(feedback)).flatMap(([name, value]) => {
    const kind = kinds[typeof value];
    return kind && !known.some((field) => field.name === name) ? [{ name, kind, isRequired: false }] : [];
  });
  const fields = [...known, ...others];
  return fields.some(({ name }) => name === COMMENT) ? fields : [...fields, { name: COMMENT, kind: 'text', isRequired: false }];
}

/**
 * @param {Field[]} fields
 * @param {(field: Field) => unknown} valueOf
 * @param {Record<string, unknown>} before  Members without a field stay.
 */
function outputsFrom(fields, valueOf, before) {
  const outputs = { ...before };
  for (const field of fields) {
    const { name, kind, isRequired } = field;
    const value = valueOf(field);
    if (value === undefined || value === '' || value === null) {
      if (isRequired) return { outputs, missing: `${name}: give a value.` };
      delete outputs[name];
    } else {
      outputs[name] = kind === 'number' ? Number(value) : value;
    }
  }
  return Object.keys(outputs).length ? { outputs, missing: null } : { outputs, missing: 'Give a value or a comment.' };
}
