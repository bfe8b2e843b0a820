/** Two revisions side by side: what changed in their data, and what their spans took. */
import { html } from 'htm/preact';
import { href, param, setParams } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';
import { Changes } from './changes.js';
import { Counts } from './counts.js';
import { LayoutSwitch } from './layout.js';

/** Revisions to choose from: the newest ones, and the two that are compared. */
const CHOICES_MAX = 100;

/** @param {{slug: string}} props */
export function Compare({ slug }) {
  const [from, to] = [param('from') ?? '', param('to') ?? ''];
  const loaded = useLoaded(async (abort) => {
    const [diff, before, after, { application_revisions: newest }] = await Promise.all([
      get('applications/revisions/diff', { from, to, lines: 'true' }, abort), get(`applications/revisions/${from}`, {}, abort),
      get(`applications/revisions/${to}`, {}, abort), post('applications/revisions/query', { application_refs: [{ slug }], windowing: { limit: CHOICES_MAX } }, abort),
    ]);
    const chosen = [before.application_revision, after.application_revision];
    const older = chosen.filter((revision) => !newest.some((/** @type {any} */ each) => each.id === revision.id));
    return { changes: diff.changes, before: chosen[0], after: chosen[1], all: [...newest, ...older] };
  }, [from, to]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">Loading…</p>`;
  const { changes, before, after, all } = loaded.data;
  return html`<div ...${marksOf(loaded, 'page')}>
    <div class="page-head"><a class="quiet" href=${href(['applications', slug])} aria-label="Back to ${slug}">←</a><h1>${slug}: what changed</h1></div>
    <div class="two">
      <${Side} slug=${slug} title="Before" revision=${before} all=${all} choose=${(/** @type {string} */ id) => setParams({ from: id })} />
      <${Side} slug=${slug} title="After" revision=${after} all=${all} choose=${(/** @type {string} */ id) => setParams({ to: id })} />
    </div>
    <section class="card">
      <div class="card-head"><h2>${changes.length === 0 ? 'The data is the same' : `${changes.length} ${changes.length === 1 ? 'change' : 'changes'}`}</h2><${LayoutSwitch} /></div>
      <${Changes} changes=${changes} before=${before.data} after=${after.data} /></section>
    <${Counts} before=${before} after=${after} />
  </div>`;
}

/** @param {{slug: string, title: string, revision: any, all: any[], choose: (id: string) => void}} props */
function Side({ slug, title, revision, all, choose }) {
  const severalVariants = new Set(all.map(variantName)).size > 1;
  return html`<section class="card"><h2>${title}</h2>
    <select aria-label=${title} value=${revision?.id} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
      ${all.map((each) => html`<option value=${each.id}>v${each.version}${each.message ? ` · ${each.message}` : ''}${severalVariants ? ` (${variantName(each)})` : ''}</option>`)}
    </select>
    <p class="soft">${revision?.message ?? 'No message'} · <${Time} value=${revision?.created_at} />${' · '}<a href=${href(['applications', slug, 'revisions', revision?.id ?? ''])}>All its data</a>${' · '}<a href=${href(['applications', slug, 'deploy'], { revision: revision.id })}>Deploy</a></p></section>`;
}

/** @param {any} revision */
function variantName(revision) {
  return revision.application_variant_slug ?? revision.slug ?? 'variant';
}
