/** Fields for the parameters of a revision. Each changes its own value; everything else of the data stays as it is. */
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import { digitsOf, parseExact } from '../../../app/exact_json.js';
import { isObject } from '../../../app/spans.js';
import { isMessages } from '../prompts.js';
import { Messages } from './messages.js';

/** Texts of these names, and long ones, get room for lines. */
const LONG_NAMES = /(^|_)(prompt|content|instructions?|template|system|description)$/i;
const LONG_TEXT = 80;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/**
 * @typedef {Readonly<{name: string, path: string, value: any, schema: any, problems: ReadonlyMap<string, string>,
 *   isUnreadable: boolean, set: (path: readonly string[], value: unknown) => void, steps: readonly string[], note: (path: string, problem: string | null) => void}>} FieldProps
 *   `path` is a JSON Pointer, `steps` its names. `problems` are by path. `isUnreadable` while any field has no value. `note` says that what is typed has no value yet.
 */

/** @param {FieldProps} props */
export function Field(props) {
  const { name, value, schema, steps, set, path } = props;
  const change = (/** @type {unknown} */ next) => set(steps, next);
  if (isMessages(value)) return html`<${Messages} title=${name} path=${path} messages=${value} change=${change} problems=${props.problems} isUnreadable=${props.isUnreadable} note=${props.note} />`;
  if (isObject(value) && digitsOf(value) === null && (Object.keys(value).length > 0 || schema?.properties)) return html`<${Group} ...${props} />`;
  return html`<div class="field"><label><span class="field-name"><bdi>${name}</bdi></span>${control(props, change)}</label>
    <${Hints} schema=${schema} problem=${props.problems.get(path)} /></div>`;
}

/** @param {FieldProps} props  @param {(value: unknown) => void} change */
function control({ name, value, schema, path, note, problems }, change) {
  const invalid = problems.has(path) || null;
  if (Array.isArray(schema?.enum) && schema.enum.every((/** @type {unknown} */ each) => typeof each === 'string')) {
    const options = schema.enum.includes(value) ? schema.enum : [value, ...schema.enum];
    return html`<select value=${value} aria-invalid=${invalid} onChange=${(/** @type {any} */ event) => change(event.target.value)}>${options.map((/** @type {any} */ each) => html`<option value=${each}>${String(each)}</option>`)}</select>`;
  }
  if (typeof value === 'boolean') return html`<input type="checkbox" checked=${value} onChange=${(/** @type {any} */ event) => change(event.target.checked)} />`;
  if (typeof value === 'string') return html`<${TextControl} name=${name} value=${value} invalid=${invalid} change=${change} />`;
  if (digitsOf(value) !== null) {
    return html`<${Typed} text=${digitsOf(value) ?? ''} path=${path} note=${note} change=${change} isLine=${true}
      read=${(/** @type {string} */ text) => (NUMBER.test(text.trim()) ? { value: parseExact(text.trim()) } : { problem: 'This must be a number.' })} />`;
  }
  return html`<${JsonControl} value=${value} path=${path} note=${note} change=${change} />`;
}

/** @param {{name: string, value: string, invalid: boolean | null, change: (value: string) => void}} props */
export function TextControl({ name, value, invalid, change }) {
  const onInput = (/** @type {any} */ event) => change(event.target.value);
  const [isLong] = useState(LONG_NAMES.test(name) || value.length > LONG_TEXT || value.includes('\n'));
  if (!isLong && !value.includes('\n')) return html`<input value=${value} aria-invalid=${invalid} onInput=${onInput} />`;
  return html`<textarea dir="auto" rows=${Math.min(24, Math.max(3, value.split('\n').length + 1))} aria-invalid=${invalid} onInput=${onInput} value=${value}></textarea>`;
}

/** @param {{value: unknown, path: string, note: FieldProps['note'], change: (value: unknown) => void}} props */
export function JsonControl({ value, path, note, change }) {
  return html`<${Typed} text=${JSON.stringify(value, null, 2)} path=${path} note=${note} change=${change} isLine=${false} read=${readJson} />`;
}

/** @param {string} text  @returns {{value: unknown} | {problem: string}} */
export function readJson(text) {
  try {
    return { value: parseExact(text) };
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : error}` };
  }
}

/**
 * A text that stands for a value. What is typed stays, also while it has no value.
 * @param {{text: string, path: string, isLine: boolean, note: FieldProps['note'], change: (value: unknown) => void,
 *   read: (text: string) => {value: unknown} | {problem: string}}} props
 */
function Typed({ text: initial, path, isLine, note, change, read }) {
  const [text, setText] = useState(initial);
  const [problem, setProblem] = useState(/** @type {string | null} */ (null));
  useEffect(() => () => note(path, null), [path, note]);
  const onInput = (/** @type {any} */ event) => {
    const typed = event.target.value;
    const result = read(typed);
    setText(typed);
    setProblem('problem' in result ? result.problem : null);
    note(path, 'problem' in result ? result.problem : null);
    if ('value' in result) change(result.value);
  };
  const control = isLine
    ? html`<input class="digits" inputmode="decimal" value=${text} aria-invalid=${problem !== null || null} onInput=${onInput} />`
    : html`<textarea rows=${Math.min(16, text.split('\n').length + 1)} spellcheck=${false} value=${text} aria-invalid=${problem !== null || null} onInput=${onInput}></textarea>`;
  return html`${control}${problem && html`<span class="error-text" role="alert">${problem}</span>`}`;
}

/** @param {{schema: any, problem: string | undefined}} props */
function Hints({ schema, problem }) {
  const limits = [['minimum', 'at least'], ['maximum', 'at most'], ['minLength', 'characters, at least'], ['maxLength', 'characters, at most']]
    .flatMap(([name = '', words]) => (typeof schema?.[name] === 'number' ? [`${words} ${schema[name]}`] : []));
  const hint = [typeof schema?.description === 'string' ? schema.description : '', limits.join(', ')].filter(Boolean).join(' · ');
  return html`${hint && html`<p class="soft hint">${hint}</p>`}${problem && html`<p class="error-text" role="status">${problem}</p>`}`;
}

/** @param {FieldProps} props */
function Group({ name, value, schema, path, steps, ...others }) {
  const known = isObject(schema?.properties) ? schema.properties : {};
  const absent = Object.entries(known).filter(([member]) => !(member in value));
  return html`<fieldset class="group"><legend><bdi>${name}</bdi></legend>
    ${others.problems.has(path) && html`<p class="error-text" role="status">${others.problems.get(path)}</p>`}
    ${Object.entries(value).map(([member, each]) => html`<${Field} key=${member} name=${member} path=${`${path}/${pointerStep(member)}`} steps=${[...steps, member]}
      value=${each} schema=${known[member]} ...${others} />`)}
    ${absent.length > 0 && html`<p class="absent">${absent.map(([member, of]) => html`<button type="button" class="quiet" onClick=${() => others.set([...steps, member], defaultOf(of))}>+ <bdi>${member}</bdi></button>`)}</p>`}
  </fieldset>`;
}

/** A name as a JSON Pointer has it. @param {string} name */
export function pointerStep(name) {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** What a new member begins with. @param {any} schema */
function defaultOf(schema) {
  if (schema?.default !== undefined) return schema.default;
  if (Array.isArray(schema?.enum)) return schema.enum[0];
  return /** @type {Record<string, unknown>} */ ({ string: '', number: 0, integer: 0, boolean: false, array: [], object: {} })[schema?.type] ?? null;
}
