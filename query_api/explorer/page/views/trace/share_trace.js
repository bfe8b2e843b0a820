/** A trace out of the page: as one HTML file that opens without a server, or as JSON. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { getExact, post } from '../../app/api.js';
import { saveFile } from '../../app/download.js';
import { number } from '../../app/format.js';
import { Menu } from '../../components/menu.js';

/** Spans of a trace that the page saves as JSON: it holds them in memory. */
const JSON_SPANS_MAX = 20_000;

/** @param {{traceId: string, count: number, summary: any}} props  `count` is the number of its spans. */
export function ShareTrace({ traceId, count, summary }) {
  const [problem, setProblem] = useState('');
  /** @param {() => Promise<void>} save */
  const attempt = async (save) => {
    setProblem('');
    await save().catch((error) => setProblem(error instanceof Error ? error.message : String(error)));
  };
  const saveHtml = async () => {
    const { SPANS_MAX, traceFile } = await import('./trace_file.js');
    const filtering = { conditions: [{ field: 'trace_id', operator: 'is', value: traceId }] };
    const { spans } = await post('spans/query', { filtering, windowing: { limit: SPANS_MAX, order: 'ascending' } });
    saveFile(`trace-${traceId}.html`, new Blob([traceFile(traceId, spans, count, summary)], { type: 'text/html' }));
  };
  const saveJson = async () => {
    if (count > JSON_SPANS_MAX) throw new Error(`The trace has ${number(count)} spans; the page saves at most ${number(JSON_SPANS_MAX)}. Run clearspan export with the filter trace_id = ${traceId}, which has no limit.`);
    const answer = await getExact(`traces/${encodeURIComponent(traceId)}`);
    saveFile(`trace-${traceId}.json`, new Blob([JSON.stringify(answer.trace, null, 2)], { type: 'application/json' }));
  };
  return html`<${Menu} label="Share" align="right">${(/** @type {() => void} */ close) => html`
      <button class="item" title="Opens in any browser, without a server" onClick=${() => { close(); attempt(saveHtml); }}>As an HTML file</button>
      <button class="item" onClick=${() => { close(); attempt(saveJson); }}>As JSON</button>`}
    </${Menu}>
    ${problem && html`<span class="error-text" role="alert">${problem}</span>`}`;
}
