/** Inputs, outputs and parameters of a span, as a tree or as text. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { isObject } from '../../app/spans.js';
import { CopyButton } from '../../components/copy.js';
import { JsonTree, LongText } from '../../components/json_tree.js';

/** Members of an object that are shown at once; JsonTree shows the beginning of more. */
const MEMBERS_MAX = 100;

/** @param {{data: Record<string, unknown>}} props */
export function Data({ data }) {
  const [isText, setText] = useState(false);
  return html`<p class="actions"><button class="quiet" aria-pressed=${isText} onClick=${() => setText(!isText)}>${isText ? 'Show as a tree' : 'Show as text'}</button></p>
    ${Object.entries(data).map(([name, value]) => html`<section class="data">
      <h3>${name} <${CopyButton} text=${() => textOf(value)} /></h3>
      ${isText || typeof value === 'string' ? html`<pre><${LongText} text=${textOf(value)} /></pre>` : treesOf(value)}
    </section>`)}`;
}

/** The members of an object stand below its title, without a level of their own. @param {unknown} value */
function treesOf(value) {
  const members = isObject(value) ? Object.entries(value) : [];
  if (members.length === 0 || members.length > MEMBERS_MAX) return html`<${JsonTree} value=${value} open=${4} />`;
  return members.map(([name, member]) => html`<${JsonTree} key=${name} name=${name} value=${member} open=${3} />`);
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}
