/** All attributes of a span by path, with a search, and quick filters for each value. */
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { CopyButton } from '../../components/copy.js';
import { LongText } from '../../components/json_tree.js';
import { SpanFilter } from './span_filter.js';

const ROWS_MAX = 300;

/** @param {{span: import('../../app/spans.js').Span}} props */
export function Attributes({ span }) {
  const [search, setSearch] = useState('');
  const all = useMemo(() => leaves(span.attributes ?? {}), [span]);
  const lower = search.toLowerCase();
  const found = all.filter(([path, value]) => `${path} ${String(value)}`.toLowerCase().includes(lower));
  return html`<p class="actions"><input type="search" data-focus="filter" aria-label="Search attributes" placeholder="Search ${all.length} attributes" value=${search}
      onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} />
      <${CopyButton} text=${() => JSON.stringify(span.attributes, null, 2)} label="Copy all" /></p>
    <table class="plain attributes"><tbody>
      ${found.slice(0, ROWS_MAX).map(([path, value]) => html`<tr key=${path}>
        <th scope="row"><code>${path}</code></th>
        <td><${LongText} text=${String(value)} max=${400} /></td>
        <td><${SpanFilter} condition=${{ field: 'attributes', key: path, operator: 'is', value }} /></td></tr>`)}
    </tbody></table>
    ${found.length > ROWS_MAX && html`<p class="soft">The first ${ROWS_MAX} of ${found.length}. Search to see others.</p>`}`;
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
