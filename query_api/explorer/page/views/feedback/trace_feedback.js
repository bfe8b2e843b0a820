/** The feedback of a whole trace: thumbs for its root, and the spans that were judged, loaded when they are asked for. */
import { html } from 'htm/preact';
import { href, param, setParams } from '../../app/address.js';
import { post } from '../../app/api.js';
import { changes, storedCount } from '../../app/feedback.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { scoresOf, scoreText } from '../../app/scores.js';
import { ErrorNotice } from '../../components/notices.js';
import { Menu } from '../../components/menu.js';
import { useFeedback } from './feedback_tab.js';
import { Thumbs } from './thumbs.js';

const SPANS_MAX = 20;
const SCORES_MAX = 5;

/** @param {{traceId: string, rootId: string}} props */
export function TraceFeedback({ traceId, rootId }) {
  const filtering = judgedIn(traceId);
  const counted = useLoaded(async (abort) => (await post('spans/groups/query', { filtering, group_by: [], measures: [{ of: 'count' }] }, abort)).groups[0]?.values.count ?? 0,
    [traceId, storedCount.value]);
  const count = counted.data ?? 0;
  return html`<${Menu} align="right" class="trace-feedback" label=${count ? `Feedback on ${count === 1 ? '1 span' : `${count} spans`}` : 'Feedback'} title="What was said about spans of this trace">
    ${(/** @type {() => void} */ close) => html`<div class="trace-feedback-body">
      <${RootThumbs} traceId=${traceId} rootId=${rootId} />
      <button class="item" onClick=${() => { close(); setParams({ span: rootId, tab: 'scores', write: rootId }, { replace: true }); }}>Write about the trace</button>
      <${Judged} traceId=${traceId} close=${close} />
    </div>`}
  </${Menu}>`;
}

/** @param {string} traceId */
function judgedIn(traceId) {
  return { conditions: [{ field: 'trace_id', operator: 'is', value: traceId }, { field: 'scores', operator: 'exists' }] };
}

/** @param {{traceId: string, close: () => void}} props */
function Judged({ traceId, close }) {
  const loaded = useLoaded(async (abort) => (await post('spans/query', { filtering: judgedIn(traceId), windowing: { limit: SPANS_MAX } }, abort)).spans, [traceId, storedCount.value]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  const spans = (loaded.data ?? []).map((/** @type {any} */ span) => ({ span, scores: scoresOf(span).filter(isThere) }));
  return html`<ul ...${marksOf(loaded)}>${spans.map((/** @type {any} */ { span, scores }) => scores.length > 0 && html`<li key=${span.span_id}>
    <a href=${href(['traces', traceId], { span: span.span_id, tab: 'scores', fold: param('fold') })} onClick=${close}><bdi>${span.span_name}</bdi></a>
    <span class="soft"><bdi>${scores.slice(0, SCORES_MAX).map((/** @type {any} */ score) => `${score.name} ${scoreText(score)}`).join(', ')}</bdi></span></li>`)}</ul>
    ${spans.length === SPANS_MAX && html`<p class="actions soft">The first ${SPANS_MAX} spans.</p>`}`;
}

/** @param {{traceId: string, rootId: string}} props */
function RootThumbs({ traceId, rootId }) {
  const span = { trace_id: traceId, span_id: rootId };
  const feedback = useFeedback(span);
  return html`<p class="actions"><span class="soft">The trace as a whole</span><${Thumbs} span=${span} feedback=${feedback} about="trace" /></p>`;
}

/** Scores of feedback that this page deleted leave their spans a moment later. @param {import('../../app/scores.js').Score} score */
function isThere({ source }) {
  return changes.value.get(source?.trace_id)?.feedback !== null;
}
