/** A list out of the page: a link whose time stays, the request as a command, and all its spans as a file. */
import { html } from 'htm/preact';
import { useRef, useState } from 'preact/hooks';
import { address, href } from '../../app/address.js';
import { download } from '../../app/download.js';
import { writeFilter } from '../../app/filter.js';
import { bytes } from '../../app/format.js';
import { curlOf, SetKey } from '../../components/commands.js';
import { CopyButton } from '../../components/copy.js';
import { Menu } from '../../components/menu.js';
import { Dialog } from '../../components/shell.js';
import { ALL_TIME, fixedRange, timeRange } from '../../components/time_range.js';

const FORMATS = [['csv', 'CSV'], ['jsonl', 'JSON Lines'], ['parquet', 'Parquet']];
const EXPORT = 'spans/export';

/** @typedef {import('../../app/filter.js').Filter} Filter */

/** @param {{path: string, body: {filtering: Filter}, of: string}} props  The route of the list, what it sends for its first page, and what its rows are. */
export function ShareList({ path, body, of }) {
  const [isCommand, setCommand] = useState(false);
  const [state, setState] = useState({ text: '', isProblem: false });
  const running = useRef(/** @type {AbortController | null} */ (null));
  /** @param {string} format */
  const save = async (format) => {
    running.current?.abort();
    const controller = running.current = new AbortController();
    const say = (/** @type {string} */ text, isProblem = false) => { if (!controller.signal.aborted) setState({ text, isProblem }); };
    const { oldest, newest } = timeRange();
    const params = { format, filter: writeFilter(body.filtering) ?? undefined, oldest, newest };
    try {
      say('Exporting…');
      await download(EXPORT, params, `spans.${format}`, (count) => say(`${bytes(count)} so far…`), controller.signal);
      say('');
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), true);
    }
  };
  return html`<${Menu} label="Share" align="right" class="share">${(/** @type {() => void} */ close) => html`
      <${CopyButton} text=${fixedLink} label="Copy a link whose time stays" />
      <button class="item" onClick=${() => { setCommand(true); close(); }}>As a curl command</button>
      ${FORMATS.map(([format = '', name]) => html`<button class="item" title="Every span that fulfils the filter, in the order of time; of a trace the ones that do" onClick=${() => { save(format); close(); }}>${of === 'traces' ? 'The spans that match' : 'All spans'} as ${name}</button>`)}`}
    </${Menu}>
    ${state.text && html`<span class=${state.isProblem ? 'error-text' : 'soft'} role=${state.isProblem ? 'alert' : 'status'}>${state.text}
      ${' '}<button class="quiet" aria-label=${state.isProblem ? 'Close' : 'Stop the export'} onClick=${() => { running.current?.abort(); setState({ text: '', isProblem: false }); }}>×</button></span>`}
    ${isCommand && html`<${Command} command=${curlOf(path, body)} close=${() => setCommand(false)} />`}`;
}

/** @param {{command: string, close: () => void}} props */
function Command({ command, close }) {
  return html`<${Dialog} title="The list as a command" close=${close}><${SetKey} />
    <pre class="command">${command}</pre><p><${CopyButton} text=${command} label="Copy the command" /></p></${Dialog}>`;
}

/** The address of the view, with times instead of ones relative to now. */
function fixedLink() {
  const { path, params } = address.value;
  const { oldest = ALL_TIME, newest } = fixedRange(timeRange());
  const fixed = new URLSearchParams(params);
  fixed.delete('live');
  fixed.set('oldest', oldest);
  if (newest) fixed.set('newest', newest);
  return new URL(href(path, fixed), location.href).href;
}
