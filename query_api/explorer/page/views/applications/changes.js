/** What leads from the data of one revision to the data of another: texts by lines, messages one by one. */
import { html } from 'htm/preact';
import { isObject } from '../../app/spans.js';
import { JsonTree } from '../../components/json_tree.js';
import { currentLayout } from './layout.js';
import { isMessages } from './prompts.js';
import { TextLines, WholeText } from './text_lines.js';

/** @typedef {{op: 'added' | 'removed' | 'changed', path: string, from?: unknown, to?: unknown, lines?: import('./text_lines.js').LineChange[]}} Change */
/** @typedef {{list: string, place: number, role: string, rest: string, count: number}} Message  Where a change is in a list of messages. */

/** @param {{changes: Change[], before: unknown, after: unknown}} props  The data of both revisions. */
export function Changes({ changes, before, after }) {
  const placed = changes.map((change) => ({ change, message: messageOf(change, before, after) }));
  return html`<div class="changes">${placed.map(({ change, message }, place) => {
    const isLast = message && placed[place + 1]?.message?.list !== message.list;
    return html`<${OneChange} key=${change.op + change.path} change=${change} message=${message} />
      ${isLast && html`<${Unchanged} messages=${placed.flatMap(({ change: each, message: of }) => (of?.list === message.list && each.op !== 'removed' ? [of] : []))} count=${message.count} />`}`;
  })}</div>`;
}

/** @param {{messages: Message[], count: number}} props */
function Unchanged({ messages, count }) {
  const same = count - new Set(messages.map(({ place }) => place)).size;
  if (same <= 0) return null;
  return html`<p class="soft">${same} other ${same === 1 ? 'message is' : 'messages are'} the same.</p>`;
}

/** @param {{change: Change, message: Message | null}} props */
function OneChange({ change, message }) {
  return html`<section class="change ${change.op}">
    <h3><span class="op">${change.op}</span>${' '}
      ${message && html`<span>Message ${message.place + 1}, <bdi>${message.role}</bdi></span>${' '}`}
      <code class=${message ? 'soft' : ''}>${change.path || 'everything'}</code></h3>
    <${Value} change=${change} isMessage=${message !== null && message.rest === ''} />
  </section>`;
}

/** @param {{change: Change, isMessage: boolean}} props */
function Value({ change, isMessage }) {
  const { op, from, to, lines } = change;
  if (lines && typeof from === 'string' && typeof to === 'string') {
    return html`<${TextLines} from=${from} to=${to} lines=${lines} layout=${currentLayout()} />`;
  }
  if (op === 'changed' && [from, to].every(isShort)) {
    return html`<div class="scalars"><del><${JsonTree} value=${from} /></del> <span aria-hidden="true">→</span> <ins><${JsonTree} value=${to} /></ins></div>`;
  }
  return html`${op !== 'added' && html`<${OneSide} value=${from} op="removed" isMessage=${isMessage} />`}
    ${op !== 'removed' && html`<${OneSide} value=${to} op="added" isMessage=${isMessage} />`}`;
}

/** @param {{value: any, op: 'removed' | 'added', isMessage: boolean}} props */
function OneSide({ value, op, isMessage }) {
  if (typeof value === 'string') return html`<${WholeText} text=${value} op=${op} />`;
  if (isMessages(value)) {
    return value.map((message, place) => html`<h4 key=${place}>Message ${place + 1}, <bdi>${message.role}</bdi></h4><${OneSide} value=${message} op=${op} isMessage=${true} />`);
  }
  if (!isMessage || typeof value.content !== 'string') return html`<div class="side ${op}"><${JsonTree} value=${value} open=${4} /></div>`;
  const { role: _role, content, ...others } = value;
  return html`<${WholeText} text=${content} op=${op} />
    ${Object.keys(others).length > 0 && html`<div class="side ${op}"><${JsonTree} value=${others} open=${3} /></div>`}`;
}

/** @param {unknown} value */
function isShort(value) {
  return (value === null || typeof value !== 'object') && String(value).length < 80;
}

/**
 * @param {Change} change
 * @param {unknown} before
 * @param {unknown} after
 * @returns {Message | null}  The outermost message that the change is in.
 */
function messageOf(change, before, after) {
  const steps = change.path.split('/').slice(1).map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  let value = /** @type {any} */ (change.op === 'removed' ? before : after);
  for (const [depth, step] of steps.entries()) {
    const list = value;
    value = list?.[step];
    if (Array.isArray(list) && isObject(value) && typeof value.role === 'string') {
      const [path, rest] = [steps.slice(0, depth).join('/'), steps.slice(depth + 1).join('/')];
      return { list: path, place: Number(step), role: value.role, rest, count: lengthAt(after, steps.slice(0, depth)) };
    }
  }
  return null;
}

/** @param {any} value  @param {string[]} steps */
function lengthAt(value, steps) {
  const list = steps.reduce((below, step) => below?.[step], value);
  return Array.isArray(list) ? list.length : 0;
}
