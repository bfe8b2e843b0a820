/** A score of a span, with what gave it. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { scoreText, valueOf } from '../../app/scores.js';
import { textOf } from '../../app/spans.js';
import { LongText } from '../../components/json_tree.js';
import { Time } from '../../components/time.js';
import { SpanFilter } from './span_filter.js';

/** @param {{score: import('../../app/scores.js').Score}} props */
export function Score({ score }) {
  return html`<section class="event score">
    <h3><bdi>${score.name}</bdi> <strong><bdi>${scoreText(score)}</bdi></strong><${SpanFilter} condition=${{ field: 'scores', key: score.name, operator: 'is', value: valueOf(score) }} /></h3>
    <p class="soft"><${Time} value=${score.at} />, <${Source} source=${score.source ?? {}} /></p>
    ${textOf(score.explanation) && html`<p><${LongText} text=${score.explanation} /></p>`}
  </section>`;
}

/** @param {{source: Record<string, any>}} props */
function Source({ source }) {
  const by = textOf(source.evaluator) && html` by <bdi>${source.evaluator}</bdi>`;
  if (source.kind !== 'annotation') return html`from an event of the span${by}`;
  return textOf(source.trace_id)
    ? html`<a href=${href(['traces', source.trace_id], { span: source.span_id })}>from an annotation</a>${by}`
    : html`from an annotation${by}`;
}
