/** Replay or drop every dead letter that matches the filter of the list, after saying how many these are. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { post } from '../../app/api.js';
import { localTime, number } from '../../app/format.js';
import { ErrorNotice } from '../../components/notices.js';
import { Dialog } from '../../components/shell.js';

/** @typedef {'replay' | 'drop'} Action */
/** @typedef {{action: Action, filter: import('./letter_filter.js').LetterFilter, count: number, skipped: any[]}} Plan */

/** @param {{filter: import('./letter_filter.js').LetterFilter, done: () => void}} props */
export function ResolveAll({ filter, done }) {
  const [plan, setPlan] = useState(/** @type {Plan | null} */ (null));
  const [resolved, setResolved] = useState(/** @type {number | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Error | null} */ (null));
  /** @param {() => Promise<void>} work */
  const attempt = async (work) => {
    setProblem(null);
    try {
      await work();
    } catch (error) {
      setProblem(error instanceof Error ? error : new Error(String(error)));
      setPlan(null);
    }
  };
  /** @param {Action} action */
  const ask = (action) => attempt(async () => {
    // A replayed record that is rejected again is a new dead letter: it is later than this bound.
    const bounded = { ...filter, newest: filter.newest ?? new Date().toISOString() };
    const answer = await post(`admin/dead-letters/${action}`, { ...bounded, dry_run: true });
    setPlan({ action, filter: bounded, count: answer.count + answer.remaining, skipped: answer.skipped ?? [] });
  });
  /** @param {Plan} chosen */
  const resolve = (chosen) => attempt(async () => {
    let count = 0;
    for (let remaining = 1; remaining > 0;) {
      const answer = await post(`admin/dead-letters/${chosen.action}`, chosen.filter);
      count += answer.count;
      remaining = answer.count ? answer.remaining : 0;
      setResolved(count);
    }
    setPlan(null);
    setResolved(null);
    done();
  });
  return html`<button onClick=${() => ask('replay')}>Replay all…</button>
    <button class="danger" onClick=${() => ask('drop')}>Drop all…</button>
    ${problem && html`<${ErrorNotice} error=${problem} />`}
    ${plan && html`<${Dialog} title="${plan.action === 'replay' ? 'Replay' : 'Drop'} ${number(plan.count)} dead ${plan.count === 1 ? 'letter' : 'letters'}?" close=${() => setPlan(null)}>
      <p>${meaningOf(plan.action)} ${scopeOf(plan)}</p>
      <button class=${plan.action === 'drop' ? 'danger' : 'primary'} disabled=${resolved !== null || plan.count === 0} onClick=${() => resolve(plan)}>
        ${resolved !== null ? `${number(resolved)} of ${number(plan.count)} …` : plan.action === 'replay' ? 'Replay them' : 'Drop them'}</button></${Dialog}>`}`;
}

/** @param {Action} action */
function meaningOf(action) {
  return action === 'replay'
    ? 'Their bytes are published to their topics again.'
    : 'They are not listed or replayed any more. Their bytes are deleted; the topic of dead letters keeps its copy until Kafka deletes it.';
}

/** Which ones these are, and what is left out. @param {Plan} plan */
function scopeOf({ filter, skipped }) {
  const { newest, ...named } = filter;
  const conditions = Object.entries(named).flatMap(([name, value]) => (value ? [`${name} ${value}`] : []));
  return [
    `These are all until ${localTime(newest)}${conditions.length ? ` with ${conditions.join(', ')}` : ''}.`,
    skipped.length ? `${number(skipped.length)} more cannot be replayed: ${skipped[0].reason}` : '',
  ].filter(Boolean).join(' ');
}
