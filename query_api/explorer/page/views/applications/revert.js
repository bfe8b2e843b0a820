/** Go back to an older revision: its data is committed again, as the newest version. */
import { html } from 'htm/preact';
import { href, navigate, param } from '../../app/address.js';
import { get, post } from '../../app/api.js';
import { marksOf, useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Confirm, WhatChanges } from './review.js';

/** @param {{slug: string}} props */
export function Revert({ slug }) {
  const id = param('revision') ?? '';
  const loaded = useLoaded(async (abort) => {
    const { application_revision: old } = await get(`applications/revisions/${encodeURIComponent(id)}`, {}, abort);
    if (!old) return null;
    const { application_revision: head } = await post('applications/revisions/retrieve', { application_variant_ref: { id: old.application_variant_id } }, abort);
    const { changes } = await get('applications/revisions/diff', { from: head.id, to: id, lines: 'true' }, abort);
    return { old, head, changes };
  }, [id]);
  if (loaded.error) return html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`;
  if (!loaded.data) return html`<p class="loading" role="status">${loaded.isLoading ? 'Loading…' : 'There is no such revision.'}</p>`;
  const { old, head, changes } = loaded.data;
  const next = Number(head.version) + 1;
  const submit = async (/** @type {string} */ message) => {
    const body = { base_revision_id: head.id, ...(message && { message }) };
    const { application_revision: made } = await post(`applications/revisions/${old.id}/revert`, { application_revision: body });
    navigate(href(['applications', slug, 'revisions', made.id]));
  };
  return html`<div ...${marksOf(loaded, 'page')}>
    <div class="page-head"><a class="quiet" href=${href(['applications', slug, 'revisions', old.id])} aria-label="Back to version ${old.version}">←</a>
      <h1>${slug}: go back to version ${old.version}</h1></div>
    <p class="soft">The data of version ${old.version} is committed again, as version ${next} of <code>${old.application_variant_slug}</code>. Nothing is deleted.</p>
    <${WhatChanges} title=${`What version ${next} changes`} changes=${changes} before=${head.data} after=${old.data} same="The newest version has the same data" />
    <${Confirm} label=${`Commit it as version ${next}`} placeholder=${`Revert to version ${old.version}`} submit=${submit} isDisabled=${changes.length === 0} />
  </div>`;
}
