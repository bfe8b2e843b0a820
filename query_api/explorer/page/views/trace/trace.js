/** One trace: its totals, its waterfall, and the panel of the selected span. */
import { html } from 'htm/preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { param, setParams } from '../../app/address.js';
import { ApiError, get, post } from '../../app/api.js';
import { cost, duration, number, short } from '../../app/format.js';
import { useLoaded } from '../../app/loading.js';
import { useTitle } from '../../app/title.js';
import { BackLink } from '../../components/back_link.js';
import { CopyButton } from '../../components/copy.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { TraceFeedback } from '../feedback/trace_feedback.js';
import { Belongs } from './belongs.js';
import { Failures } from './failures.js';
import { Find, useFind } from './find.js';
import { FoldSwitch, useFold } from './fold.js';
import { Minimap } from './minimap.js';
import { readOutline } from './outline.js';
import { ShareTrace } from './share_trace.js';
import { SpanPanel } from './span_panel.js';
import { Waterfall } from './waterfall.js';

/** How often a trace with a running span is loaded, and one with many spans. */
const FOLLOW_MS = 2_000;
const FOLLOW_LARGE_MS = 30_000;
const LARGE = 2_000;

/** @param {{traceId: string}} props */
export function TraceView({ traceId }) {
  const loaded = useLoaded(async (abort) => {
    const filtering = { conditions: [{ field: 'trace_id', operator: 'is', value: traceId }] };
    const [answer, used] = await Promise.all([
      get(`traces/${encodeURIComponent(traceId)}/outline`, {}, abort),
      post('traces/summaries/query', { filtering }, abort).catch(() => null), // an id that cannot be read: the outline says so
    ]);
    return answer.outline ? { outline: readOutline(answer.outline, Date.now()), summary: used?.summaries[0] ?? {} } : null;
  }, [traceId]);
  const failure = useFollowed(loaded);
  if (loaded.error && !loaded.data) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (loaded.isLoading && !loaded.data) return html`<p class="loading" role="status">Loading the trace…</p>`;
  if (!loaded.data) {
    return html`<div class="notice empty"><h2>There is no such trace</h2>
      <p>No span with the trace id <code>${traceId}</code> is stored. It may not have arrived yet, or was deleted.</p>
      <button onClick=${loaded.reload}>Look again</button></div>`;
  }
  return html`${failure && html`<${ErrorNotice} error=${failure} retry=${loaded.reload} />`}<${Trace} ...${loaded.data} />`;
}

/**
 * Load a trace again and again while a span of it is running: its bars grow, and its end replaces it. Return the error of
 * the last attempt, also while the next one runs.
 * @param {import('../../app/loading.js').Loaded<{outline: import('./outline.js').Outline} | null>} loaded
 */
function useFollowed({ data, error, isLoading, reload }) {
  const last = useRef(/** @type {Error | null} */ (null));
  if (!isLoading) last.current = error;
  useEffect(() => {
    if (!data?.outline.hasRunning || isLoading || (error instanceof ApiError && error.status === 401)) return undefined; // a new key loads it
    const timer = setTimeout(reload, data.outline.count > LARGE ? FOLLOW_LARGE_MS : FOLLOW_MS);
    return () => clearTimeout(timer);
  }, [data, isLoading]);
  return last.current;
}

/** @param {{outline: import('./outline.js').Outline, summary: any}} props  `summary` counts the usage of each call once. */
function Trace({ outline, summary }) {
  const spanId = param('span');
  const selected = spanId === null ? -1 : outline.indexOf.get(spanId) ?? -1;
  const [asked, setAsked] = useState(0); // how often the selected span was asked for
  const [chosen, setChosen] = useState(/** @type {{from: number, to: number} | null} */ (null)); // everything, also what is added
  const zoom = chosen ?? { from: 0, to: Math.max(outline.end, 0.001) };
  const setZoom = (/** @type {{from: number, to: number}} */ { from, to }) => setChosen(from > 0 || to < outline.end ? { from, to } : null);
  const select = useCallback((/** @type {number} */ index) => {
    setParams({ span: index === -1 ? null : outline.spanId[index] }, { replace: true });
  }, [outline]);
  const show = (/** @type {number} */ index) => { // also if it is selected, and was scrolled away
    select(index);
    setAsked(asked + 1);
  };
  const found = useFind(outline);
  const matching = useMemo(() => new Set(found.matches), [found.matches]);
  const { shown, foldedCount } = useFold(outline, selected);
  return html`<div class="trace-view">
    <${Head} outline=${outline} summary=${summary} selected=${selected} show=${show} found=${found} />
    <div class="trace-body ${selected === -1 ? '' : 'with-panel'}">
      <div class="trace-left">
        <${Minimap} outline=${shown} zoom=${zoom} setZoom=${setZoom} />
        <${FoldSwitch} outline=${outline} foldedCount=${foldedCount} />
        <${Waterfall} outline=${shown} zoom=${zoom} setZoom=${setZoom} selected=${selected} asked=${asked} select=${select} matching=${matching} />
      </div>
      ${selected !== -1 && html`<${SpanPanel} isRunning=${Boolean(outline.isRunning[selected])} traceId=${outline.traceId} spanId=${outline.spanId[selected]} close=${() => select(-1)} />`}
    </div>
  </div>`;
}

/**
 * @param {{outline: import('./outline.js').Outline, summary: any, selected: number, show: (index: number) => void,
 *   found: import('./find.js').Found}} props  `show` selects a span and scrolls to it.
 */
function Head({ outline, summary, selected, show, found }) {
  const first = outline.roots[0] ?? 0;
  const name = outline.text('span_name', first) || '(no name)';
  useTitle(name);
  return html`<div class="trace-head">
    <${BackLink} to="traces" />
    <h1><bdi>${name}</bdi></h1>
    <dl class="facts">
      <div><dt>Started</dt><dd><${Time} value=${outline.startTime} milliseconds /></dd></div>
      <div><dt>${outline.hasRunning ? 'Running for' : 'Duration'}</dt><dd>${duration(outline.end)}</dd></div>
      <div><dt>Spans</dt><dd>${number(outline.count)}</dd></div>
      <${Failures} outline=${outline} selected=${selected} select=${show} />
      ${summary.tokens > 0 && html`<div><dt>Tokens</dt><dd>${short(summary.tokens)}</dd></div>`}
      ${summary.cost > 0 && html`<div><dt>Cost</dt><dd>${cost(summary.cost)}</dd></div>`}
    </dl>
    <${Find} found=${found} selected=${selected} select=${show} />
    <div class="trace-names">
      <dl class="facts"><${Belongs} traceId=${outline.traceId} summary=${summary} /></dl>
      <span class="trace-id"><code>${outline.traceId}</code><${CopyButton} text=${outline.traceId} /></span>
      <div class="trace-tools"><${TraceFeedback} traceId=${outline.traceId} rootId=${outline.spanId[first]} />
        <${ShareTrace} traceId=${outline.traceId} count=${outline.count} summary=${summary} /></div>
    </div>
    ${(outline.roots.length > 1) && html`<p class="soft roots-note">${topLevel(outline)}</p>`}
  </div>`;
}

/** @param {import('./outline.js').Outline} outline */
function topLevel({ roots, isOrphan }) {
  const orphans = roots.filter((index) => isOrphan[index]).length;
  const others = roots.length - orphans;
  const parts = [];
  if (others > 1) parts.push(`${others} spans without a parent`);
  if (orphans) parts.push(`${orphans} whose parent is not stored (it may still arrive)`);
  return `At the top level: ${parts.join(', ')}.`;
}
