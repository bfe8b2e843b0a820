/** Deploy a revision to an environment: what will change there is shown before. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { href, param, setParams } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Counts } from './counts.js';
import { loadEnvironments } from './environments.js';
import { Confirm, WhatChanges } from './review.js';

/** @param {{slug: string}} props */
export function Deploy({ slug }) {
  const id = param('revision') ?? '';
  const chosen = param('environment');
  const [deployed, setDeployed] = useState(/** @type {string | null} */ (null));
  const loaded = useLoaded(async (abort) => {
    const [{ application_revision: revision }, environments] = await Promise.all([
      get(`applications/revisions/${encodeURIComponent(id)}`, {}, abort), loadEnvironments(abort),
    ]);
    const environment = environments.find((each) => each.slug === chosen) ?? null;
    const current = environment?.deployed[`${slug}.revision`];
    if (!revision || !current) return { revision, environments, environment, before: null, changes: [] };
    const [{ application_revision: before }, { changes }] = await Promise.all([
      get(`applications/revisions/${current}`, {}, abort), get('applications/revisions/diff', { from: current, to: id, lines: 'true' }, abort),
    ]);
    return { revision, environments, environment, before, changes };
  }, [id, chosen, slug, deployed]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">Loading…</p>`;
  const { revision, environments, environment, before, changes } = loaded.data;
  if (!revision || environments.length === 0) return html`<p class="loading" role="status">${revision ? 'This project has no environment.' : 'There is no such revision.'}</p>`;
  const name = `version ${revision.version}`;
  const isDeployed = before?.id === revision.id;
  const deploy = async (/** @type {string} */ target, /** @type {string} */ message) => {
    const refs = { application_revision_ref: { id: revision.id }, environment_ref: { slug: target } };
    await post('applications/revisions/deploy', { ...refs, ...(message && { message }) });
    setDeployed(target);
  };
  return html`<div ...${marksOf(loaded, 'page')}>
    <div class="page-head"><a class="quiet" href=${href(['applications', slug])} aria-label="Back to ${slug}">←</a><h1>${slug}: deploy ${name}</h1></div>
    <section class="card"><label class="beside">Environment <select value=${environment?.slug ?? ''} onChange=${(/** @type {any} */ event) => setParams({ environment: event.target.value })}>
        ${!environment && html`<option value="">choose…</option>`}
        ${environments.map((each) => html`<option value=${each.slug}>${each.name}</option>`)}</select></label>
      ${environment && html`<p class="soft">${before ? html`Now <a href=${href(['applications', slug, 'revisions', before.id])}>version ${before.version}</a> of <code>${before.application_variant_slug}</code> runs there.` : `Nothing of ${slug} is deployed there yet.`}</p>`}</section>
    ${environment && deployed === environment.slug && isDeployed && html`<div class="notice done" role="status"><p>${`Version ${revision.version} is deployed to ${environment.name}.`} <a href=${href(['applications', slug])}>Its versions</a> · <a href=${href(['applications', slug, 'revisions', revision.id])}>Its figures and spans</a></p></div>`}
    ${before && !isDeployed && html`<${WhatChanges} title="What will change" changes=${changes} before=${before.data} after=${revision.data} same="The data is the same" />
      <${Counts} before=${before} after=${revision} />`}
    ${environment && !isDeployed && html`<${Confirm} label=${`Deploy ${name} to ${environment.name}`} submit=${(/** @type {string} */ message) => deploy(environment.slug, message)} />`}
    ${environment && isDeployed && deployed !== environment.slug && html`<p class="soft">This version is what runs there.</p>`}
  </div>`;
}
