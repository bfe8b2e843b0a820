/** Replay or drop every dead letter that matches the filter of the list, after saying how many these are. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { post } from '../../app/api.js';
import { number } from '../../app/format.js';
import { ErrorNotice } from '../../components/notices.js';
import { Dialog } from '../../components/shell.js';

/** @typedef {'replay' | 'drop'} Action */

/** @param {{code: string | null, topic: string | null, done: () => void}} props */
export function ResolveAll({ code, topic, done }) {
  const [asked, setAsked] = useState(/** @type {{action: Action, plan: any} | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Error | null} */ (null));
  const filter = { code: code ?? undefined, topic: topic ?? undefined };
  /** @param {Action} action @param {boolean} dryRun */
  const send = async (action, dryRun) => {
    setProblem(null);
    try {
      const plan = await post(`admin/dead-letters/${action}`, { ...filter, dry_run: dryRun });
      setAsked(dryRun ? { action, plan } : null);
      if (!dryRun) done();
    } catch (error) {
      setProblem(error instanceof Error ? error : new Error(String(error)));
    }
  };
  return html`<button onClick=${() => send('replay', true)}>Replay all…</button>
    <button class="danger" onClick=${() => send('drop', true)}>Drop all…</button>
    ${problem && html`<${ErrorNotice} error=${problem} />`}
    ${asked && html`<${Dialog} title="${asked.action === 'replay' ? 'Replay' : 'Drop'} ${number(asked.plan.count)} dead letters?" close=${() => setAsked(null)}>
      <p>${asked.action === 'replay' ? 'Their bytes are published to their topics again.' : 'They are not listed or replayed any more. Their bytes stay in the topic of dead letters until Kafka deletes them.'}
        ${asked.plan.remaining > 0 ? ` ${number(asked.plan.remaining)} more match; ask again for them.` : ''}</p>
      <button class=${asked.action === 'drop' ? 'danger' : 'primary'} onClick=${() => send(asked.action, false)}>
        ${asked.action === 'replay' ? 'Replay them' : 'Drop them'}</button></${Dialog}>`}`;
}
