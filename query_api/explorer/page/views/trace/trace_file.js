/**
 * A trace as one HTML file: the spans in a tree, each with its time, conversation and attributes. The file holds the
 * styles of the page, runs nothing and loads nothing: its content security policy allows styles and images in the file
 * alone, and everything that spans say is written by the browser as text.
 */
import { render } from 'preact';
import { html } from 'htm/preact';
import { cost, duration, number, short } from '../../app/format.js';
import { messagesOf } from '../../app/messages.js';
import { attribute, costOf, durationOf, isError, isRunning, serviceOf, textOf, tokensOf } from '../../app/spans.js';
import { IsWhole } from '../../components/json_tree.js';
import { Message } from '../conversation/message.js';
import { resultsOf } from '../conversation/tool_call.js';

/** Spans in a file; the API also ends a page at 16 MiB of spans. */
export const SPANS_MAX = 2_000;
const DEPTH_MAX = 30;
const POLICY = "default-src 'none'; style-src data:; img-src data:; media-src data:; base-uri 'none'; form-action 'none'";

/** @typedef {import('../../app/spans.js').Span} Span */
/** @typedef {{span: Span, depth: number}} Placed */

/**
 * @param {string} traceId
 * @param {Span[]} spans  In the order of their start.
 * @param {number} count  Of all spans of the trace.
 * @param {any} summary  What the trace as a whole belongs to and used.
 * @returns {string}
 */
export function traceFile(traceId, spans, count, summary) {
  const content = document.createElement('div');
  render(html`<${IsWhole.Provider} value=${true}><${File} traceId=${traceId} spans=${spans} count=${count} summary=${summary} /></${IsWhole.Provider}>`, content);
  for (const useless of content.querySelectorAll('button:not(.json-toggle)')) useless.remove();
  const page = document.implementation.createHTMLDocument(`${textOf(spans[0]?.span_name) || 'Trace'} · ${traceId}`);
  const styles = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).map((rule) => rule.cssText).join('\n');
  page.head.append(element(page, 'meta', { charset: 'utf-8' }), element(page, 'meta', { 'http-equiv': 'Content-Security-Policy', content: POLICY }),
    element(page, 'meta', { name: 'viewport', content: 'width=device-width, initial-scale=1' }),
    element(page, 'link', { rel: 'stylesheet', href: `data:text/css;charset=utf-8,${encodeURIComponent(styles)}` }));
  page.documentElement.lang = 'en';
  page.body.className = 'trace-file';
  page.body.innerHTML = content.innerHTML;
  render(null, content);
  return `<!doctype html>\n${page.documentElement.outerHTML}`;
}

/** @param {Document} page  @param {string} name  @param {Record<string, string>} attributes */
function element(page, name, attributes) {
  const made = page.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** @param {{traceId: string, spans: Span[], count: number, summary: any}} props */
function File({ traceId, spans, count, summary }) {
  const placed = tree(spans);
  const begin = startOf(spans[0] ?? {});
  const end = Math.max(...spans.map((span) => startOf(span) + durationOf(span)), begin + 0.001);
  const failed = spans.filter(isError).length;
  return html`<main class="page">
    <h1><bdi>${textOf(placed[0]?.span.span_name) || '(no name)'}</bdi></h1>
    <dl class="facts"><div><dt>Trace</dt><dd><code>${traceId}</code></dd></div><div><dt>Started</dt><dd>${spans[0]?.start_time}</dd></div>
      <div><dt>Duration</dt><dd>${duration(end - begin)}</dd></div><div><dt>Spans</dt><dd>${number(count)}</dd></div>
      ${failed > 0 && html`<div><dt>Errors</dt><dd class="error-text">${number(failed)}</dd></div>`}
      ${summary.tokens > 0 && html`<div><dt>Tokens</dt><dd>${short(summary.tokens)}</dd></div>`}
      ${summary.cost > 0 && html`<div><dt>Cost</dt><dd>${cost(summary.cost)}</dd></div>`}
      ${summary.session_id && html`<div><dt>Session</dt><dd><bdi>${summary.session_id}</bdi></dd></div>`}
      ${summary.user_id && html`<div><dt>User</dt><dd><bdi>${summary.user_id}</bdi></dd></div>`}</dl>
    ${spans.length < count && html`<p class="notice incomplete">The first ${number(spans.length)} of ${number(count)} spans.</p>`}
    ${placed.map(({ span, depth }) => html`<details class=${`file-span ${isError(span) ? 'failed' : ''}`} open=${spans.length === 1}>
      <summary>${'\u2003'.repeat(Math.min(depth, DEPTH_MAX))}<span class="type type-${span.span_type}">${textOf(span.span_type) || 'span'}</span>${' '}<bdi class="name">${textOf(span.span_name) || '(no name)'}</bdi>
        ${isError(span) && html`${' '}<span class="error-text">failed</span>`}
        <span class="took">${[isRunning(span) ? 'running' : duration(durationOf(span)), tokensOf(span) && `${number(tokensOf(span))} tokens`, cost(costOf(span))].filter(Boolean).join(' · ')}</span>
        <svg class="file-bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect x=${((startOf(span) - begin) / (end - begin)) * 100} width=${Math.max(0.4, (durationOf(span) / (end - begin)) * 100)} height="4" /></svg></summary>
      <${Body} span=${span} /></details>`)}
    <p class="soft">Written by Clearspan. This file runs and loads nothing.</p>
  </main>`;
}

/** @param {{span: Span}} props */
function Body({ span }) {
  const turns = messagesOf(span);
  const results = resultsOf(turns.map(({ message }) => message));
  const paired = new Set(results.values());
  const messages = turns.filter(({ message }) => !paired.has(message));
  const data = /** @type {[string, unknown][]} */ (messages.length ? [] : [['Inputs', attribute(span, 'ag.data.inputs')], ['Outputs', attribute(span, 'ag.data.outputs')]]);
  const folded = /** @type {[string, unknown][]} */ ([
    ['Attributes', span.attributes], ['Events', span.events], ['Scores', span.scores], ['Links', span.links], ['Resource', span.resource],
  ]);
  const facts = [serviceOf(span), span.start_time, `span ${span.span_id}`].filter(Boolean).join(' · ');
  return html`<div class="card"><p class="soft">${facts}</p>
    ${isError(span) && html`<p class="notice error">${textOf(span.status_message) || 'failed'}</p>`}
    ${messages.length > 0 && html`<div class="conversation">${messages.map(({ side, message }) => html`<${Message} side=${side} message=${message} results=${results} />`)}</div>`}
    ${data.filter(isPresent).map(([title, value]) => html`<h3>${title}</h3><pre>${textOfJson(value)}</pre>`)}
    ${folded.filter(isPresent).map(([title, value]) => html`<details><summary>${title}</summary><pre>${textOfJson(value)}</pre></details>`)}
  </div>`;
}

/** @param {[string, unknown]} part */
function isPresent([, value]) {
  return value !== undefined && value !== null;
}

/** @param {unknown} value */
function textOfJson(value) {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** The spans with their depth, children below their parents. @param {Span[]} spans  @returns {Placed[]} */
function tree(spans) {
  const ids = new Set(spans.map(({ span_id: id }) => id));
  /** @type {Map<string | null, Span[]>} */
  const below = new Map();
  for (const span of spans) {
    const parent = span.parent_id !== span.span_id && ids.has(span.parent_id) ? span.parent_id : null;
    below.set(parent, [...below.get(parent) ?? [], span]);
  }
  const placed = /** @type {Placed[]} */ ([]);
  const seen = new Set();
  const stack = (below.get(null) ?? []).toReversed().map((span) => ({ span, depth: 0 }));
  const others = spans.toReversed().map((span) => ({ span, depth: 0 })); // spans that are their own ancestors
  for (let next = stack.pop() ?? others.pop(); next; next = stack.pop() ?? others.pop()) {
    if (seen.has(next.span.span_id)) continue;
    const { span, depth } = next;
    seen.add(span.span_id);
    placed.push({ span, depth });
    stack.push(...(below.get(span.span_id) ?? []).toReversed().map((child) => ({ span: child, depth: depth + 1 })));
  }
  return placed;
}

/** @param {Span} span  @returns {number}  Milliseconds since 1970. */
function startOf(span) {
  return Number(BigInt(span.start_time_unix_nano ?? 0) / 1_000n) / 1e3;
}
