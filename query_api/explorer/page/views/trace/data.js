/** Inputs, outputs and parameters of a span, as a tree or as text. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { CopyButton } from '../../components/copy.js';
import { JsonTree, LongText } from '../../components/json_tree.js';

/** @param {{data: Record<string, unknown>}} props */
export function Data({ data }) {
  const [isText, setText] = useState(false);
  return html`<p class="actions"><button class="quiet" aria-pressed=${isText} onClick=${() => setText(!isText)}>${isText ? 'Show as a tree' : 'Show as text'}</button></p>
    ${Object.entries(data).map(([name, value]) => html`<section class="data">
      <h3>${name} <${CopyButton} text=${() => textOf(value)} /></h3>
      ${isText || typeof value === 'string' ? html`<pre><${LongText} text=${textOf(value)} /></pre>` : html`<${JsonTree} value=${value} open=${4} />`}
    </section>`)}`;
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}
