/** The draft in two ways: fields for messages and parameters, and the JSON of everything. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { isObject } from '../../../app/spans.js';
import { Field, readJson } from './fields.js';

const TABS = /** @type {const} */ ([['fields', 'Prompt and parameters'], ['json', 'JSON']]);
const JSON_PATH = '';

/**
 * @param {{data: any, change: (data: any) => void, problems: ReadonlyMap<string, string>, isUnreadable: boolean, note: import('./fields.js').FieldProps['note']}} props
 *   `problems` are those of the schema, by JSON Pointer. While a text `isUnreadable`, nothing may take its field away.
 */
export function Draft({ data, change, problems, isUnreadable, note }) {
  const [tab, setTab] = useState('fields');
  const [text, setText] = useState('');
  const json = readJson(text);
  const problem = tab === 'json' && 'problem' in json ? json.problem : null;
  const open = (/** @type {string} */ name) => {
    if (name === 'json') setText(JSON.stringify(data, null, 2));
    setTab(name);
  };
  const onInput = (/** @type {any} */ event) => {
    setText(event.target.value);
    const result = readObject(event.target.value);
    note(JSON_PATH, 'problem' in result ? result.problem : null);
    if ('value' in result) change(result.value);
  };
  return html`<section class="card">
    <div class="tabs" role="tablist">${TABS.map(([name, title]) => html`<button type="button" role="tab" aria-selected=${name === tab} disabled=${isUnreadable && name !== tab} onClick=${() => open(name)}>${title}</button>`)}</div>
    ${tab === 'json'
      ? html`<label><span class="visually-hidden">The data as JSON</span><textarea class="whole-json" rows="24" spellcheck=${false} value=${text} aria-invalid=${problem !== null || null} onInput=${onInput}></textarea></label>
          ${problem && html`<p class="error-text" role="alert">${problem}</p>`}`
      : html`<${Fields} data=${data} change=${change} problems=${problems} isUnreadable=${isUnreadable} note=${note} />`}
    <${OtherProblems} problems=${problems} isAll=${tab === 'json'} />
  </section>`;
}

/** @param {{data: any, change: (data: any) => void, problems: ReadonlyMap<string, string>, isUnreadable: boolean, note: import('./fields.js').FieldProps['note']}} props */
function Fields({ data, change, problems, isUnreadable, note }) {
  const { parameters, ...others } = data;
  const schema = data.schemas?.parameters;
  const set = (/** @type {readonly string[]} */ steps, /** @type {unknown} */ value) => change(withValue(data, steps, value));
  return html`${isObject(parameters)
    ? html`<${Field} name="parameters" path="/parameters" steps=${['parameters']} value=${parameters} schema=${schema} problems=${problems} isUnreadable=${isUnreadable} set=${set} note=${note} />`
    : html`<p class="soft">This revision has no parameters. <button type="button" onClick=${() => change({ ...data, parameters: {} })}>Add parameters</button></p>`}
    ${Object.keys(others).length > 0 && html`<p class="soft hint">The data also has <bdi>${Object.keys(others).join(', ')}</bdi>: edit them as JSON.</p>`}`;
}

/** Problems of the schema, with their place; beside fields only the one of all parameters. @param {{problems: ReadonlyMap<string, string>, isAll: boolean}} props */
function OtherProblems({ problems, isAll }) {
  const shown = isAll ? [...problems] : [];
  if (problems.size === 0) return null;
  return html`<div class="notice incomplete" role="status"><p>${problems.size} ${problems.size === 1 ? 'value does' : 'values do'} not match the schema of the parameters. A commit is possible anyway.</p>
    ${shown.map(([path, message]) => html`<p><code>${path}</code> ${message}</p>`)}</div>`;
}

/** @param {string} text  @returns {{value: any} | {problem: string}} */
function readObject(text) {
  const result = readJson(text);
  if ('value' in result && !isObject(result.value)) return { problem: 'The data must be an object.' };
  return result;
}

/**
 * A copy with another value at a place.
 * @param {any} value
 * @param {readonly string[]} steps
 * @param {unknown} replacement
 * @returns {any}
 */
export function withValue(value, [step, ...rest], replacement) {
  if (step === undefined) return replacement;
  if (Array.isArray(value)) return value.map((each, place) => (String(place) === step ? withValue(each, rest, replacement) : each));
  return { ...value, [step]: withValue(value?.[step], rest, replacement) };
}
