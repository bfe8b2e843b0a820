/** Records and spans that could not be stored: why, their bytes, and what to do with them. Needs the administrator's key. */
import { html } from 'htm/preact';
import { useCallback, useMemo, useState } from 'preact/hooks';
import { href, param } from '../../app/address.js';
import { call, get, post } from '../../app/api.js';
import { bytes } from '../../app/format.js';
import { marksOf, useLoaded, usePages } from '../../app/loading.js';
import { BackLink } from '../../components/back_link.js';
import { CopyButton } from '../../components/copy.js';
import { ErrorNotice } from '../../components/notices.js';
import { Dialog } from '../../components/shell.js';
import { Time } from '../../components/time.js';
import { timeRange } from '../../components/time_range.js';
import { LetterFields, letterFilter } from './letter_filter.js';
import { ResolveAll } from './resolve_all.js';

const PAGE = 100;
const HEX_MAX = 16_384;

/** @param {{id?: string}} props */
export function DeadLettersView({ id }) {
  return id ? html`<${Letter} key=${id} id=${id} />` : html`<${Letters} />`;
}

function Letters() {
  const { oldest, newest } = timeRange();
  const inputs = [...['code', 'topic', 'project'].map(param), oldest, newest];
  const filter = useMemo(letterFilter, inputs);
  const loadPage = useCallback(async (/** @type {string | null} */ next, /** @type {AbortSignal} */ abort) => {
    const answer = await get('admin/dead-letters', { ...filter, limit: PAGE, next }, abort);
    return { rows: answer.dead_letters, next: answer.windowing?.next ?? null, complete: true };
  }, inputs);
  const pages = usePages(loadPage, inputs);
  return html`<div class="page"><div class="page-head"><h1>Dead letters</h1>
      <${LetterFields} />
      ${pages.rows.length > 0 && !pages.isOld && html`<${ResolveAll} filter=${filter} done=${pages.reload} />`}
    </div>
    ${pages.error && html`<${ErrorNotice} error=${pages.error} retry=${pages.reload} />`}
    ${!pages.isLoading && !pages.error && pages.rows.length === 0 && html`<div class="notice empty"><h2>${inputs.some(Boolean) ? 'No open dead letter matches' : 'No open dead letters'}</h2>
      <p>A record or a span that cannot be stored is kept here with its bytes and the reason, until it is replayed or dropped.</p></div>`}
    ${pages.rows.length > 0 && html`<table ...${marksOf(pages, 'plain')}><thead><tr><th>Time</th><th>Code</th><th>Reason</th><th class="wide">Topic</th><th class="wide">Project</th><th class="numeric wide">Partition, offset</th><th class="numeric wide">Size</th></tr></thead><tbody>
      ${pages.rows.map((/** @type {any} */ letter) => html`<tr key=${letter.id}>
        <td><a href=${href(['dead-letters', letter.id])}><${Time} value=${letter.created_at} /></a></td><td class="whole"><code>${letter.code}</code></td>
        <td>${letter.reason}</td><td class="whole wide">${letter.topic}</td><td class="wide">${letter.project && html`<code>${letter.project}</code>`}</td><td class="numeric wide">${letter.partition}, ${letter.offset}</td><td class="numeric wide">${bytes(letter.bytes_count)}</td></tr>`)}
    </tbody></table>`}
    ${pages.isLoading && html`<p class="soft" role="status">Loading…</p>`}
    ${pages.next && html`<button onClick=${pages.more}>Load more</button>`}
  </div>`;
}

/** @param {{id: string}} props */
function Letter({ id }) {
  const loaded = useLoaded(async (abort) => (await get(`admin/dead-letters/${encodeURIComponent(id)}`, {}, abort)).dead_letter ?? null, [id]);
  const [isHex, setHex] = useState(false);
  const [isDropping, setDropping] = useState(false);
  const [done, setDone] = useState('');
  const [problem, setProblem] = useState(/** @type {Error | null} */ (null));
  /** @param {() => Promise<any>} action @param {string} message */
  const act = async (action, message) => {
    setProblem(null);
    try {
      await action();
      setDone(message);
    } catch (error) {
      setProblem(error instanceof Error ? error : new Error(String(error)));
    }
    setDropping(false);
  };
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  const letter = loaded.data;
  if (!letter) return html`<p class="loading" role="status">${loaded.isLoading ? 'Loading…' : 'This dead letter is not open: it was replayed or dropped.'}</p>`;
  const content = decode(letter.value_base64 ?? '');
  return html`<div class="page">
    <div class="page-head"><${BackLink} to="dead-letters" /><h1><code>${letter.code}</code></h1></div>
    <p>${letter.reason}</p>
    <dl class="facts"><div><dt>From</dt><dd>${letter.topic}, partition ${letter.partition}, offset ${letter.offset}${letter.span_index == null ? '' : `, span ${letter.span_index}`}</dd></div>
      <div><dt>Time</dt><dd><${Time} value=${letter.created_at} /></dd></div><div><dt>Size</dt><dd>${bytes(letter.bytes_count)}</dd></div></dl>
    ${problem && html`<${ErrorNotice} error=${problem} />`}
    ${done && html`<div class="notice" role="status">${done}</div>`}
    <p class="actions">
      <button class="primary" disabled=${Boolean(done)} onClick=${() => act(() => post(`admin/dead-letters/${id}/replay`, {}), 'Replayed: its bytes are in the topic again.')}>Replay</button>
      <button class="danger" disabled=${Boolean(done)} onClick=${() => setDropping(true)}>Drop</button>
      <button class="quiet" aria-pressed=${isHex} onClick=${() => setHex(!isHex)}>${isHex ? 'Show as text' : 'Show as hex'}</button>
      <${CopyButton} text=${letter.value_base64 ?? ''} label="Copy as base64" /></p>
    <pre class="bytes">${isHex ? hexOf(content) : new TextDecoder().decode(content)}</pre>
    ${isDropping && html`<${Dialog} title="Drop this dead letter?" close=${() => setDropping(false)}>
      <p>It is not listed or replayed any more. Its bytes are deleted; the topic of dead letters keeps its copy until Kafka deletes it.</p>
      <button class="danger" onClick=${() => act(() => call('DELETE', `admin/dead-letters/${id}`), 'Dropped.')}>Drop it</button></${Dialog}>`}
  </div>`;
}

/** @param {string} base64 */
function decode(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** @param {Uint8Array} content */
function hexOf(content) {
  const lines = [];
  for (let at = 0; at < Math.min(content.length, HEX_MAX); at += 16) {
    const part = [...content.subarray(at, at + 16)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join('\n') + (content.length > HEX_MAX ? `\n… ${content.length - HEX_MAX} more bytes` : '');
}
