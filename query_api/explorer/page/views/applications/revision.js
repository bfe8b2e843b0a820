/** One revision: its data, where it is in the history, and what its spans took. */
import { html } from 'htm/preact';
import { href } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { CopyButton } from '../../components/copy.js';
import { JsonTree } from '../../components/json_tree.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { OneCounts, SpansOf } from './counts.js';

/** @param {{slug: string, id: string}} props */
export function Revision({ slug, id }) {
  const loaded = useLoaded(async (abort) => {
    const answer = await get(`applications/revisions/${encodeURIComponent(id)}`, { include_counts: 'true' }, abort);
    const revision = answer.application_revision;
    if (!revision) return null;
    const { application_revisions: all } = await post('applications/revisions/query', { application_variant_refs: [{ id: revision.application_variant_id }], windowing: { limit: 100 } }, abort);
    const before = all.find((/** @type {any} */ each) => Number(each.version) === Number(revision.version) - 1 && each.data);
    return { revision, counts: answer.counts, before };
  }, [id]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">${loaded.isLoading ? 'Loading…' : 'There is no such revision.'}</p>`;
  const { revision, counts, before } = loaded.data;
  return html`<div class="page">
    <div class="page-head"><a class="quiet" href=${href(['applications', slug])} aria-label="Back to ${slug}">←</a>
      <h1>${slug}, version ${revision.version}</h1>
      ${before && html`<a href=${href(['applications', slug, 'compare'], { from: before.id, to: revision.id })}>What changed since v${before.version}</a>`}</div>
    <p class="soft">${revision.message ?? 'No message'} · <${Time} value=${revision.created_at} /></p>
    <section class="card"><h2>Data <${CopyButton} text=${() => JSON.stringify(revision.data, null, 2)} /></h2>
      ${revision.data ? html`<${JsonTree} value=${revision.data} open=${6} />` : html`<p class="soft">This revision has no data.</p>`}</section>
    <section class="card"><h2>Spans of the last 30 days</h2>
      ${counts?.spans ? html`<${OneCounts} counts=${counts} /><p><${SpansOf} counts=${counts} /></p>` : html`<p class="soft">No span names this revision.</p>`}</section>
  </div>`;
}
