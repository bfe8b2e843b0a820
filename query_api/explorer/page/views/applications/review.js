/** The last step of a change: what it will do is above, here it is confirmed. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { useReadOnlyReason } from '../../app/access.js';
import { ErrorNotice } from '../../components/notices.js';
import { Changes } from './changes.js';
import { LayoutSwitch } from './layout.js';

/**
 * A message and a button. An error of the change is shown in words.
 * @param {{label: string, placeholder?: string, submit: (message: string) => Promise<void>, isDisabled?: boolean, hint?: string, children?: any}} props
 *   `hint` says why the button is disabled. `children` stand in place of the error if there are any.
 */
export function Confirm({ label, placeholder = 'optional', submit, isDisabled = false, hint, children }) {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const readOnly = useReadOnlyReason();
  const reason = readOnly ?? hint;
  /** @param {SubmitEvent} event */
  const onSubmit = async (event) => {
    event.preventDefault();
    const message = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('message') ?? '').trim();
    setRunning(true);
    setError(null);
    try {
      await submit(message);
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    } finally {
      setRunning(false);
    }
  };
  return html`<section class="card confirm">
    ${children ?? (error && html`<${ErrorNotice} error=${error} />`)}
    <form onSubmit=${onSubmit}>
      <label>Message <input name="message" maxlength="1000" autocomplete="off" placeholder=${placeholder} /></label>
      <button class="primary" disabled=${isDisabled || isRunning || readOnly !== null}>${label}</button>
    </form>
    ${reason && html`<p class="soft" role="status">${reason}</p>`}
  </section>`;
}

/** @param {{title: string, changes: import('./changes.js').Change[], before: unknown, after: unknown, same: string}} props  `same` is the title if nothing changes. */
export function WhatChanges({ title, changes, before, after, same }) {
  const count = `${changes.length} ${changes.length === 1 ? 'change' : 'changes'}`;
  return html`<section class="card">
    <div class="card-head"><h2>${changes.length === 0 ? same : `${title}: ${count}`}</h2>${changes.some(({ lines }) => lines) && html`<${LayoutSwitch} />`}</div>
    <${Changes} changes=${changes} before=${before} after=${after} />
  </section>`;
}
