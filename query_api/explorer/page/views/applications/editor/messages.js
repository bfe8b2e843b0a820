/** The messages of a prompt: their role, their text and their order. What else a message holds stays. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { JsonControl, TextControl } from './fields.js';

const ROLES = ['system', 'user', 'assistant', 'developer', 'tool'];

/** @typedef {import('../prompts.js').Message} Message */

/**
 * @param {{title: string, path: string, messages: Message[], change: (messages: Message[]) => void,
 *   problems: ReadonlyMap<string, string>, isUnreadable: boolean, note: import('./fields.js').FieldProps['note']}} props
 *   While a text `isUnreadable` the places stay: its field would begin anew, with the old value.
 */
export function Messages({ title, path, messages, change, problems, isUnreadable, note }) {
  const [round, setRound] = useState(0); // other places: fields begin anew with their value
  const reorder = (/** @type {Message[]} */ ordered) => {
    setRound(round + 1);
    change(ordered);
  };
  const replace = (/** @type {number} */ place, /** @type {Message} */ message) => change(messages.with(place, message));
  const swap = (/** @type {number} */ place) => {
    const [one, other] = [messages[place], messages[place + 1]];
    if (one && other) reorder(messages.with(place, other).with(place + 1, one));
  };
  return html`<fieldset class="group"><legend><bdi>${title}</bdi></legend>
    ${messages.map((message, place) => html`<${OneMessage} key=${`${round}/${place}`} message=${message} place=${place} isLast=${place === messages.length - 1}
      isOnly=${messages.length === 1} isFixed=${isUnreadable} path=${`${path}/${place}`} problems=${problems} note=${note} swap=${swap} replace=${replace} remove=${(/** @type {number} */ gone) => reorder(messages.toSpliced(gone, 1))} />`)}
    <button type="button" disabled=${isUnreadable} onClick=${() => reorder([...messages, { role: messages.at(-1)?.role === 'user' ? 'assistant' : 'user', content: '' }])}>Add a message</button>
  </fieldset>`;
}

/**
 * @param {{message: Message, place: number, isLast: boolean, isOnly: boolean, isFixed: boolean, path: string, problems: ReadonlyMap<string, string>, note: import('./fields.js').FieldProps['note'],
 *   swap: (place: number) => void, replace: (place: number, message: Message) => void, remove: (place: number) => void}} props
 */
function OneMessage({ message, place, isLast, isOnly, isFixed, path, problems, note, swap, replace, remove }) {
  const { role, content, ...others } = message;
  const name = `Message ${place + 1}`;
  const roles = ROLES.includes(role) ? ROLES : [role, ...ROLES];
  const setContent = (/** @type {unknown} */ next) => replace(place, { ...message, content: next });
  return html`<section class="edited-message" aria-label=${name}>
    <div class="message-tools"><label><span class="field-name">${name}</span> <select aria-label="Role of message ${place + 1}" value=${role} onChange=${(/** @type {any} */ event) => replace(place, { ...message, role: event.target.value })}>
        ${roles.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
      <button type="button" class="quiet" disabled=${isFixed || place === 0} aria-label="Move message ${place + 1} up" onClick=${() => swap(place - 1)}>↑</button>
      <button type="button" class="quiet" disabled=${isFixed || isLast} aria-label="Move message ${place + 1} down" onClick=${() => swap(place)}>↓</button>
      <button type="button" class="quiet danger" disabled=${isFixed || isOnly} aria-label="Remove message ${place + 1}" onClick=${() => remove(place)}>Remove</button></div>
    <label class="message-text"><span class="visually-hidden">Text of message ${place + 1}</span>
      ${typeof content === 'string' ? html`<${TextControl} name="content" value=${content} invalid=${problems.has(`${path}/content`) || null} change=${setContent} />`
        : html`<${JsonControl} value=${content ?? null} path=${`${path}/content`} note=${note} change=${setContent} />`}</label>
    ${Object.keys(others).length > 0 && html`<p class="soft hint">It also has <bdi>${Object.keys(others).join(', ')}</bdi>, which stay as they are; the JSON shows them.</p>`}
    ${[...problems].filter(([place_]) => place_ === path || place_.startsWith(`${path}/`)).map(([, problem]) => html`<p class="error-text" role="status">${problem}</p>`)}
  </section>`;
}
