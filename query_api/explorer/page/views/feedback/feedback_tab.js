/** What was said about a span: feedback that can be edited and deleted, and scores that came with the span. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { useReadOnlyReason, useSilentReason } from '../../app/access.js';
import { href, param, setParams } from '../../app/address.js';
import { authorOf, COMMENT, follow, loadFeedback, outputsOf, remove, waitingReason, withChanges } from '../../app/feedback.js';
import { useLoaded } from '../../app/loading.js';
import { scoresOf, wordOf } from '../../app/scores.js';
import { textOf } from '../../app/spans.js';
import { LongText } from '../../components/json_tree.js';
import { lazy } from '../../components/lazy.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { Score } from '../trace/scores.js';
import { SpanFilter } from '../trace/span_filter.js';
import { ThumbIcon } from './thumbs.js';

/** @typedef {import('../../app/feedback.js').SpanIds} SpanIds */
/** @typedef {ReturnType<typeof withChanges>[number]} Shown */

/** Loaded when somebody gives feedback, or edits it. */
const FeedbackForm = lazy(async () => (await import('./feedback_form.js')).FeedbackForm);

const ORIGINS = /** @type {Record<string, string>} */ ({ human: 'a person', auto: 'a program' });

/** The feedback about a span, with what this page changed, and why the key cannot give or change it. @param {SpanIds} span */
export function useFeedback(span) {
  const loaded = useLoaded((abort) => loadFeedback(span, abort), [span.trace_id, span.span_id]);
  const [cannotGive, cannotChange] = [useSilentReason(), useReadOnlyReason()];
  return { ...loaded, list: withChanges(loaded.isOld ? [] : loaded.data ?? [], span), cannotGive, cannotChange };
}

/** @param {{span: import('../../app/spans.js').Span, feedback: ReturnType<typeof useFeedback>}} props */
export function FeedbackTab({ span, feedback }) {
  const isOpen = feedback.cannotGive === null && param('write') === span.span_id;
  const open = (/** @type {boolean} */ isWanted) => setParams({ write: isWanted ? span.span_id : null }, { replace: true });
  const ids = /** @type {SpanIds} */ ({ trace_id: span.trace_id, span_id: span.span_id });
  const others = scoresOf(span).filter(({ source }) => source?.kind !== 'annotation');
  return html`
    ${isOpen ? html`<${FeedbackForm} span=${ids} close=${() => open(false)} />`
      : html`<p class="actions"><button disabled=${feedback.cannotGive !== null} onClick=${() => open(true)}>Give feedback</button><span class="soft">${feedback.cannotGive}</span></p>`}
    ${feedback.error && html`<${ErrorNotice} error=${feedback.error} retry=${feedback.reload} />`}
    ${feedback.list.map((one) => html`<${Card} key=${one.trace_id} span=${ids} one=${one} cannotChange=${feedback.cannotChange} />`)}
    ${others.map((score) => html`<${Score} score=${score} />`)}
    ${!feedback.isLoading && !feedback.error && feedback.list.length + others.length === 0 && !isOpen && html`<p class="soft">Nobody has judged this span yet.
      A thumb, a score, a label or a comment says how good it is; lists filter and sort by it.</p>`}`;
}

/** @param {{span: SpanIds, one: Shown, cannotChange: string | null}} props */
function Card({ span, one, cannotChange }) {
  const [mode, setMode] = useState(/** @type {'shown' | 'edited' | 'asked'} */ ('shown'));
  if (mode === 'edited') return html`<${FeedbackForm} span=${span} feedback=${one} close=${() => setMode('shown')} />`;
  const { [COMMENT]: comment, ...outputs } = outputsOf(one);
  const evaluator = textOf(one.references?.evaluator?.slug);
  const cannot = cannotChange ?? waitingReason(one);
  return html`<section class="event score">
    ${Object.entries(outputs).map(([name, value]) => html`<h3><bdi>${name}</bdi> <${Value} name=${name} value=${value} /></h3>`)}
    ${textOf(comment) && html`<p><${LongText} text=${comment} /></p>`}
    <p class="soft">${one.created_at && html`<${Time} value=${one.created_at} />, `}<a href=${href(['traces', one.trace_id], { span: one.span_id })}>from an annotation</a>
      ${evaluator && html` by <bdi>${evaluator}</bdi>`}, ${authorOf(one) ? html`given by <bdi>${authorOf(one)}</bdi>` : `given by ${ORIGINS[one.origin ?? ''] ?? 'an evaluator'}`}</p>
    <${State} one=${one} />
    ${mode === 'asked' ? html`<${Deletion} span=${span} one=${one} isWaiting=${cannot !== null} close=${() => setMode('shown')} />`
      : html`<p class="actions">${['edited', 'asked'].map((next) => html`<button class="quiet" disabled=${cannot !== null} title=${cannot}
        onClick=${() => setMode(/** @type {any} */ (next))}>${next === 'edited' ? 'Edit' : 'Delete'}</button>`)}</p>`}
  </section>`;
}

/** @param {{name: string, value: unknown}} props */
function Value({ name, value }) {
  const condition = { field: 'scores', key: name, operator: 'is', value: typeof value === 'boolean' ? Number(value) : value };
  if (typeof value === 'boolean') return html`<strong class="thumb-value"><${ThumbIcon} isUp=${value} /> ${wordOf(name, value)}</strong><${SpanFilter} condition=${condition} />`;
  if (value !== null && typeof value === 'object') return html`<${LongText} text=${value} />`;
  return html`<strong><bdi><${LongText} text=${value} /></bdi></strong><${SpanFilter} condition=${condition} />`;
}

/** @param {{one: Shown}} props */
function State({ one }) {
  if (!one.change || one.change.isStored) return null;
  const { about, coordinates, problem } = one.change;
  return problem
    ? html`<p class="error-text" role="alert">It was accepted, but is not stored yet: ${problem}
        <button class="quiet" onClick=${() => follow(about, one, coordinates)}>Look again</button></p>`
    : html`<p class="soft" role="status">Being stored… Lists and filters see it in a moment.</p>`;
}

/** @param {{span: SpanIds, one: Shown, isWaiting: boolean, close: () => void}} props */
function Deletion({ span, one, isWaiting, close }) {
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState(/** @type {string | null} */ (null));
  const confirm = async () => {
    setSending(true);
    try {
      await remove(span, one);
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
      setSending(false);
    }
  };
  return html`<p class="actions" role="group" aria-label="Delete this feedback">Delete it for everybody?
    <button class="danger" disabled=${isSending || isWaiting} onClick=${confirm}>Delete</button><button onClick=${close}>Keep</button>
    ${problem && html`<span class="error-text" role="alert">${problem}</span>`}</p>`;
}
