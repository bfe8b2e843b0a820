/** Thumbs for a span: how many were given, and one click to give, change or remove one's own. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { ApiError } from '../../app/api.js';
import { edit, give, isOwn, newEvaluator, outputsOf, remove, THUMB, waitingReason } from '../../app/feedback.js';

const DIRECTIONS = /** @type {const} */ ([[true, 'up'], [false, 'down']]);

/** @param {{isUp: boolean}} props */
export function ThumbIcon({ isUp }) {
  return html`<svg class="thumb-icon" viewBox="0 0 24 24" width="16" height="16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round">
    <g transform=${isUp ? null : 'rotate(180 12 12)'}><path d="M3 11h4v10H3z" /><path d="M7 11l4-8c1.8 0 2.7 1.3 2.4 2.9L12.8 9H19a2 2 0 0 1 2 2.3l-1.3 7.4A2.7 2.7 0 0 1 17 21H7" /></g></svg>`;
}

/** @param {{span: import('../../app/feedback.js').SpanIds, feedback: ReturnType<typeof import('./feedback_tab.js').useFeedback>, about?: string}} props */
export function Thumbs({ span, feedback, about = 'span' }) {
  const { list, data, isOld, cannotGive, cannotChange } = feedback;
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState(/** @type {string | null} */ (null));
  const thumbs = list.filter((one) => typeof outputsOf(one)[THUMB] === 'boolean');
  const own = thumbs.find(isOwn);
  const chosen = own && outputsOf(own)[THUMB];
  const waiting = waitingReason(own);
  const cannot = (own ? cannotChange : cannotGive) ?? waiting;
  /** @param {boolean} isUp */
  const choose = async (isUp) => {
    setSending(true);
    setProblem(null);
    try {
      if (!own) await give(span, newEvaluator(THUMB, 'thumb'), { [THUMB]: isUp });
      else if (chosen === isUp) await remove(span, own);
      else await edit(span, own, { ...outputsOf(own), [THUMB]: isUp });
    } catch (error) {
      const asksForMore = error instanceof ApiError && error.status === 422;
      setProblem(asksForMore ? `The evaluator “${THUMB}” asks for more than a thumb: use “Give feedback” below.` : /** @type {Error} */ (error).message);
    }
    setSending(false);
  };
  return html`<span class="thumbs" role="group" aria-label="Thumbs for this ${about}">
    ${DIRECTIONS.map(([isUp, word]) => {
      const count = thumbs.filter((one) => outputsOf(one)[THUMB] === isUp).length;
      return html`<button class="quiet thumb" aria-pressed=${chosen === isUp} disabled=${isSending || !data || isOld || cannot !== null} aria-label="Thumb ${word}${count ? `, given ${count === 1 ? 'once' : `${count} times`}` : ''}"
        title=${cannot ?? (chosen === isUp ? 'Remove' : `Thumb ${word}`)} onClick=${() => choose(isUp)}><${ThumbIcon} isUp=${isUp} />${count > 0 && html`<span>${count}</span>`}</button>`;
    })}
    <span class="soft" role="status">${isSending ? 'sending…' : waiting ? (own?.change?.problem ? 'not stored yet' : 'being stored…') : ''}</span>
    ${problem && html`<span class="error-text" role="alert">${problem}</span>`}
  </span>`;
}
