/** All attributes of a span by path, with a search, and quick filters for each value. */
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { href } from '../../app/address.js';
import { CopyButton } from '../../components/copy.js';
import { LongText } from '../../components/json_tree.js';
import { Menu } from '../../components/menu.js';

const ROWS_MAX = 300;

/** @param {{span: import('../../app/spans.js').Span}} props */
export function Attributes({ span }) {
  const [search, setSearch] = useState('');
  const all = useMemo(() => leaves(span.attributes ?? {}), [span]);
  const lower = search.toLowerCase();
  const found = all.filter(([path, value]) => `${path} ${String(value)}`.toLowerCase().includes(lower));
  return html`<p class="actions"><input type="search" aria-label="Search attributes" placeholder="Search ${all.length} attributes" value=${search}
      onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} />
      <${CopyButton} text=${() => JSON.stringify(span.attributes, null, 2)} label="Copy all" /></p>
    <table class="plain attributes"><tbody>
      ${found.slice(0, ROWS_MAX).map(([path, value]) => html`<tr key=${path}>
        <th scope="row"><code>${path}</code></th>
        <td><${LongText} text=${String(value)} max=${400} /></td>
        <td><${ValueMenu} path=${path} value=${value} /></td></tr>`)}
    </tbody></table>
    ${found.length > ROWS_MAX && html`<p class="soft">The first ${ROWS_MAX} of ${found.length}. Search to see others.</p>`}`;
}

/**
 * What can be done with a value: show only spans that have it, or only others.
 * @param {{path: string, value: unknown}} props
 */
function ValueMenu({ path, value }) {
  const condition = { field: 'attributes', key: path };
  const filtered = (/** @type {string} */ operator) => href(['spans'], { filter: JSON.stringify({ conditions: [{ ...condition, operator, value }] }) });
  return html`<${Menu} label="⋯" title="Filter by this value" align="right" class="value-menu">
    <a class="item" href=${filtered('is')}>Only this</a>
    <a class="item" href=${filtered('is_not')}>Not this</a>
    <a class="item" href=${href(['spans'], { filter: JSON.stringify({ conditions: [{ ...condition, operator: 'exists' }] }) })}>Any value</a>
    <${CopyButton} text=${String(value)} label="Copy value" />
  </${Menu}>`;
}

/**
 * @param {object} value
 * @param {string} path
 * @returns {[string, unknown][]}
 */
function leaves(value, path = '') {
  return Object.entries(value).flatMap(([name, child]) => {
    const at = path ? `${path}.${name}` : name;
    if (child !== null && typeof child === 'object' && Object.keys(child).length) return leaves(child, at);
    return /** @type {[string, unknown][]} */ ([[at, child !== null && typeof child === 'object' ? JSON.stringify(child) : child]]);
  });
}
