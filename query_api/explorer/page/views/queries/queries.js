/** Saved queries and their history. Every revision can be run, also an older one. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { post } from '../../app/api.js';
import { conditionText } from '../../app/filter.js';
import { useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { chartHref } from '../charts/saved_charts.js';
import { savedQueryHref } from '../list/save_query.js';

const LIMIT = 100;

/** @param {{path: readonly string[]}} props */
export function QueriesView({ path }) {
  return path[0] ? html`<${History} key=${path[0]} slug=${path[0]} />` : html`<${QueryList} />`;
}

function QueryList() {
  const loaded = useLoaded((abort) => post('simple/queries/query', { windowing: { limit: LIMIT + 1 } }, abort), []);
  const found = loaded.data?.queries ?? [];
  const queries = found.slice(0, LIMIT);
  return html`<div class="page"><div class="page-head"><h1>Saved queries</h1></div>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data && queries.length === 0 && html`<div class="notice empty"><h2>No saved queries</h2>
      <p>Filter the <a href=${href(['traces'])}>traces</a> or <a href=${href(['spans'])}>spans</a>, then press Save. Programs can run a saved query by its slug.</p></div>`}
    ${queries.length > 0 && html`<table class="plain"><thead><tr><th>Query</th><th>Filter</th><th></th></tr></thead><tbody>
      ${queries.map((/** @type {any} */ query) => html`<tr key=${query.id}>
        <td><a href=${query.meta?.chart ? chartHref(query) : savedQueryHref(query.slug, query)}>${query.name || query.slug}</a><br /><code class="soft">${query.slug}</code></td>
        <td><${FilterText} data=${query.data} /></td>
        <td class="action"><a href=${href(['queries', query.slug])}>History</a></td></tr>`)}
    </tbody></table>`}
    ${found.length > LIMIT && html`<p class="soft" role="status">The first ${LIMIT} are shown; there are more.</p>`}
  </div>`;
}

/** @param {{slug: string}} props */
function History({ slug }) {
  const loaded = useLoaded(async (abort) => {
    const [{ query_revisions: all }, { queries }] = await Promise.all([
      post('queries/revisions/query', { query_refs: [{ slug }], windowing: { limit: LIMIT + 1, order: 'descending' } }, abort),
      post('simple/queries/query', { query: { slug } }, abort),
    ]);
    return { all, query: queries[0] ?? null };
  }, [slug]);
  const isCut = (loaded.data?.all.length ?? 0) > LIMIT;
  const revisions = (loaded.data?.all ?? []).slice(0, LIMIT).filter((/** @type {any} */ revision) => revision.data)
    .toSorted((/** @type {any} */ a, /** @type {any} */ b) => Number(b.version) - Number(a.version));
  return html`<div class="page">
    <div class="page-head"><a class="quiet" href=${href(['queries'])} aria-label="Back to the queries">←</a><h1>${loaded.data?.query?.name || slug}</h1><code class="soft">${slug}</code></div>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${loaded.data && revisions.length === 0 && html`<p class="soft">There is no such query.</p>`}
    ${revisions.length > 0 && html`<table class="plain"><thead><tr><th>Version</th><th>Filter</th><th>Message</th><th>Saved</th><th></th></tr></thead><tbody>
      ${revisions.map((/** @type {any} */ revision) => html`<tr key=${revision.id}>
        <td>v${revision.version}</td><td><${FilterText} data=${revision.data} /></td><td>${revision.message ?? ''}</td>
        <td><${Time} value=${revision.created_at} /></td><td><a href=${savedQueryHref(slug, revision)}>Run</a></td></tr>`)}
    </tbody></table>`}
    ${isCut && html`<p class="soft" role="status">The newest ${LIMIT} versions are shown; there are more.</p>`}
    <p class="soft">Programs run the newest revision with <code>${`{"query_ref": {"slug": "${slug}"}}`}</code>.</p>
  </div>`;
}

/** @param {{data: any}} props */
function FilterText({ data }) {
  const conditions = data?.filtering?.conditions ?? [];
  const { oldest, newest, sort } = data?.windowing ?? {};
  const scope = [data?.formatting?.focus === 'span' ? 'spans' : 'traces', oldest || newest ? `from ${oldest ?? 'the beginning'} to ${newest ?? 'now'}` : 'all time', sort ? `by ${sort.by}` : ''];
  return html`<span class="chips"><span class="soft">${scope.filter(Boolean).join(' · ')}</span>${conditions.map((/** @type {any} */ condition) => html`<span class="chip operator">${conditionText(condition)}</span>`)}</span>`;
}
