/** The links of a span to other traces, and its references to applications, saved queries and others. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { objectsOf, textOf } from '../../app/spans.js';
import { JsonTree } from '../../components/json_tree.js';
import { ErrorNotice } from '../../components/notices.js';

/** @typedef {{id?: string, slug?: string, version?: string, attributes?: {key?: unknown}}} SpanReference  `key` may be of any kind. */

/** @param {{span: import('../../app/spans.js').Span}} props */
export function Links({ span }) {
  const references = /** @type {SpanReference[]} */ (objectsOf(span.references));
  return html`
    ${objectsOf(span.links).map((link) => html`<section class="event">
      <h3><a href=${href(['traces', link.trace_id], { span: link.span_id })}>Span <code>${link.span_id}</code> of trace <code>${link.trace_id}</code></a></h3>
      ${link.attributes && html`<${JsonTree} value=${link.attributes} />`}
    </section>`)}
    ${['application', 'query'].map((kind) => html`<${Revision} key=${kind} kind=${kind} references=${references} />`)}
    ${references.map((reference) => html`<section class="event">
      <h3>${wordsOf(reference)}</h3><${JsonTree} value=${withoutAttributes(reference)} /></section>`)}`;
}

/**
 * The revision that the references of one kind name together; `null` if they name none, or none that is stored here.
 * @param {string} kind
 * @param {SpanReference[]} references
 */
export function useRevision(kind, references) {
  const named = refsOf(kind, references);
  return useLoaded(async (abort) => {
    if (named.length === 0) return null;
    const place = kind === 'application' ? 'applications' : 'queries';
    const { [`${kind}_revision`]: revision } = await post(`${place}/revisions/retrieve`, Object.fromEntries(named), abort);
    return revision ?? null;
  }, [JSON.stringify(named)]);
}

/** The members of a request for what references name. @param {string} kind  @param {SpanReference[]} references */
function refsOf(kind, references) {
  return references.flatMap(({ attributes, id, slug, version }) => {
    const key = textOf(attributes?.key);
    const [, part] = new RegExp(`^${kind}(_variant|_revision)?$`).exec(key) ?? [];
    return key.startsWith(kind) ? [[`${kind}${part ?? ''}_ref`, { id, slug, version }]] : [];
  });
}

/** @param {{kind: string, revision: any}} props */
export function RevisionLink({ kind, revision }) {
  const slug = revision[`${kind}_slug`] ?? '';
  const target = kind === 'application' ? href(['applications', slug, 'revisions', revision.id]) : href(['queries', slug]);
  return html`<a href=${target}>${slug}, version ${revision.version}</a>`;
}

/** @param {{kind: string, references: SpanReference[]}} props */
function Revision({ kind, references }) {
  const loaded = useRevision(kind, references);
  if (refsOf(kind, references).length === 0) return null;
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} />`;
  if (!loaded.data || loaded.isOld) return html`<p class="soft">${loaded.isLoading || loaded.isOld ? 'Loading…' : `This ${kind} is not stored here.`}</p>`;
  return html`<section class="event"><h3><${RevisionLink} kind=${kind} revision=${loaded.data} /></h3>
    <p class="soft">The ${kind} that produced this span. ${loaded.data.message ?? ''}</p></section>`;
}

/** @param {SpanReference} reference */
function wordsOf({ attributes }) {
  const words = (textOf(attributes?.key) || 'reference').replace('_', ' ');
  return `${words[0]?.toUpperCase()}${words.slice(1)}`;
}

/** @param {SpanReference} reference */
function withoutAttributes({ attributes: _attributes, ...reference }) {
  return reference;
}
