/** Two revisions side by side: what changed in their data, and what their spans took. */
import { html } from 'htm/preact';
import { href, param, setParams } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { Changes } from './changes.js';
import { Counts, SpansOf } from './counts.js';
import { LayoutSwitch } from './layout.js';

/** @param {{slug: string}} props */
export function Compare({ slug }) {
  const [from, to] = [param('from') ?? '', param('to') ?? ''];
  const loaded = useLoaded(async (abort) => {
    const counted = { include_counts: 'true' };
    const [diff, before, after, all] = await Promise.all([
      get('applications/revisions/diff', { from, to, lines: 'true' }, abort), get(`applications/revisions/${from}`, counted, abort),
      get(`applications/revisions/${to}`, counted, abort),
      post('applications/revisions/query', { application_refs: [{ slug }], windowing: { limit: 100 } }, abort),
    ]);
    return { changes: diff.changes, before, after, all: all.application_revisions };
  }, [from, to]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">Loading…</p>`;
  const { changes, before, after, all } = loaded.data;
  return html`<div ...${marksOf(loaded, 'page')}>
    <div class="page-head"><a class="quiet" href=${href(['applications', slug])} aria-label="Back to ${slug}">←</a><h1>${slug}: what changed</h1></div>
    <div class="two">
      <${Side} slug=${slug} title="Before" answer=${before} all=${all} choose=${(/** @type {string} */ id) => setParams({ from: id })} />
      <${Side} slug=${slug} title="After" answer=${after} all=${all} choose=${(/** @type {string} */ id) => setParams({ to: id })} />
    </div>
    <section class="card">
      <div class="card-head"><h2>${changes.length === 0 ? 'The data is the same' : `${changes.length} ${changes.length === 1 ? 'change' : 'changes'}`}</h2><${LayoutSwitch} /></div>
      <${Changes} changes=${changes} before=${before.application_revision?.data} after=${after.application_revision?.data} /></section>
    <section class="card"><h2>Spans of the last 30 days</h2><${Counts} before=${before.counts} after=${after.counts} /></section>
  </div>`;
}

/** @param {{slug: string, title: string, answer: any, all: any[], choose: (id: string) => void}} props */
function Side({ slug, title, answer, all, choose }) {
  const revision = answer.application_revision;
  const severalVariants = new Set(all.map(variantName)).size > 1;
  return html`<section class="card"><h2>${title}</h2>
    <select aria-label=${title} value=${revision?.id} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
      ${all.map((each) => html`<option value=${each.id}>v${each.version}${each.message ? ` · ${each.message}` : ''}${severalVariants ? ` (${variantName(each)})` : ''}</option>`)}
    </select>
    <p class="soft">${revision?.message ?? 'No message'} · <${Time} value=${revision?.created_at} />${' · '}<a href=${href(['applications', slug, 'revisions', revision?.id ?? ''])}>All its data</a>${' · '}<${SpansOf} counts=${answer.counts} /></p></section>`;
}

/** @param {any} revision */
function variantName(revision) {
  return revision.application_variant_slug ?? revision.slug ?? 'variant';
}
