/** A part of the page whose modules are loaded when it is first shown. */
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import { ErrorNotice } from './notices.js';

/**
 * @template P
 * @param {() => Promise<(props: P) => any>} load  Loads the part. After a failure it is called again.
 * @param {() => any} [placeholder]  What stands there meanwhile.
 * @returns {(props: P) => any}
 */
export function lazy(load, placeholder = () => html`<p class="loading" role="status">Loading…</p>`) {
  /** @type {((props: P) => any) | null} */
  let View = null;
  return function Lazy(props) {
    const [problem, setProblem] = useState(/** @type {Error | null} */ (null));
    const [round, setRound] = useState(0);
    useEffect(() => {
      if (View) return;
      load().then((loaded) => { View = loaded; setRound(-1); }, () => setProblem(new Error('This part of the explorer cannot be loaded. Is the API running?')));
    }, [round]);
    if (View) return html`<${View} ...${props} />`;
    if (problem) return html`<${ErrorNotice} error=${problem} retry=${() => { setProblem(null); setRound(round + 1); }} />`;
    return placeholder();
  };
}
