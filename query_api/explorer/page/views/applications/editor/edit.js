/**
 * Edit the newest revision of a variant, and commit what changed. The draft is the whole data: fields change their own
 * value of it, so that nothing is lost that they do not know. A commit names the revision that it was made from.
 */
import { html } from 'htm/preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { href, navigate, param } from '../../../app/address.js';
import { ApiError, getExact, post } from '../../../app/api.js';
import { useQuestionBeforeLeaving } from '../../../app/leaving.js';
import { useLoaded } from '../../../app/loading.js';
import { ErrorNotice } from '../../../components/notices.js';
import { Confirm, WhatChanges } from '../review.js';
import { Conflict } from './conflict.js';
import { Draft } from './draft.js';

const CHECK_AFTER_MS = 400;
const EMPTY = { parameters: { prompt: { messages: [{ role: 'system', content: '' }, { role: 'user', content: '' }], llm_config: { model: '' } } } };

/** One variant: another one needs another `key`. @param {{slug: string}} props */
export function Edit({ slug }) {
  const [variantSlug, from] = [param('variant') ?? '', param('from')];
  const loaded = useLoaded(async (abort) => {
    const query = { application_refs: [{ slug }], application_variant: { slug: variantSlug } };
    const [variant] = (await post('applications/variants/query', query, abort)).application_variants;
    if (!variant) return null;
    const { application_revision: head } = await post('applications/revisions/retrieve', { application_variant_ref: { id: variant.id } }, abort);
    const read = async (/** @type {string} */ id) => (await getExact(`applications/revisions/${encodeURIComponent(id)}`, abort)).application_revision;
    const base = head ? await read(head.id) : null;
    return { variant, base, start: from && from !== head?.id ? await read(from) : base };
  }, [slug, variantSlug, from]);
  const first = useRef(loaded.data); // another key loads again, and must not take the draft away
  first.current ??= loaded.data;
  const isAbsent = !loaded.data && !loaded.isLoading;
  if (!first.current && !loaded.error) return html`<p class="loading" role="status">${isAbsent ? 'There is no such variant.' : 'Loading…'}</p>`;
  return html`${loaded.error ? html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`
    : isAbsent && html`<div class="notice error" role="alert"><p>There is no such variant in the project of this key. Use a key of the project in which you began.</p></div>`}
    ${first.current && html`<${Editor} slug=${slug} ...${first.current} />`}`;
}

/** @param {{slug: string, variant: any, base: any, start: any}} props  `base` is the head, `null` if there is no revision. */
function Editor({ slug, variant, base: firstBase, start }) {
  const [base, setBase] = useState(firstBase);
  const [data, setData] = useState(() => start?.data ?? EMPTY);
  const [unreadable, setUnreadable] = useState(/** @type {ReadonlyMap<string, string>} */ (new Map()));
  const [conflict, setConflict] = useState(/** @type {any} */ (null));
  const [committed, setCommitted] = useState(/** @type {string | null} */ (null));
  const checked = useCheck(base, data);
  const isChanged = JSON.stringify(data) !== JSON.stringify(start?.data ?? EMPTY);
  useQuestionBeforeLeaving((isChanged || unreadable.size > 0) && committed === null);
  useEffect(() => { if (committed) navigate(href(['applications', slug, 'revisions', committed])); }, [committed]);
  const note = useCallback((/** @type {string} */ path, /** @type {string | null} */ problem) => setUnreadable((before) => {
    const after = new Map([...before].filter(([each]) => each !== path));
    return problem === null ? after : after.set(path, problem);
  }), []);
  const submit = async (/** @type {string} */ message) => {
    setConflict(null);
    const revision = { application_variant_id: variant.id, data, ...(base && { base_revision_id: base.id }), ...(message && { message }) };
    try {
      setCommitted((await post('applications/revisions/commit', { application_revision: revision })).application_revision.id);
    } catch (error) {
      if (!(error instanceof ApiError) || error.detail?.code !== 'revision_conflict') throw error;
      setConflict((await getExact(`applications/revisions/${error.detail.details.current_revision_id}`)).application_revision);
    }
  };
  const next = base ? Number(base.version) + 1 : 0;
  const changes = checked.data?.changes ?? [];
  const hint = unreadable.size > 0 ? 'Correct what is marked above first.' : checked.data && changes.length === 0 ? 'Nothing is changed yet.' : undefined;
  return html`<div class="page editor">
    <div class="page-head"><a class="quiet" href=${href(['applications', slug])} aria-label="Back to ${slug}">←</a>
      <h1>${slug}: edit <bdi>${variant.name || variant.slug}</bdi></h1></div>
    <p class="soft">${base ? `From version ${start.version}${start.id === base.id ? ', the newest' : ''}. A commit makes version ${next}; nothing is overwritten.` : 'This variant has no version yet. A commit makes version 0.'}</p>
    <${Draft} data=${data} change=${setData} problems=${problemsOf(checked.data)} isUnreadable=${unreadable.size > 0} note=${note} />
    ${checked.error ? html`<${ErrorNotice} error=${checked.error} />` : checked.data
      ? html`<${WhatChanges} title="What will change" changes=${changes} before=${base?.data} after=${data} same="Nothing is changed" />`
      : html`<section class="card"><h2>What will change</h2><p class="soft">Loading…</p></section>`}
    <${Confirm} label=${`Commit version ${next}`} placeholder="What changed, and why" submit=${submit} hint=${hint}
      isDisabled=${hint !== undefined || Boolean(checked.error)}>
      ${conflict && html`<${Conflict} slug=${slug} base=${base} theirs=${conflict} goOn=${() => { setBase(conflict); setConflict(null); }} />`}
    </${Confirm}>
  </div>`;
}

/**
 * What a commit of the draft would change, and where it does not match its schema; a moment after the last change.
 * @param {any} base
 * @param {unknown} data
 */
function useCheck(base, data) {
  const [checkedData, setCheckedData] = useState(data);
  useEffect(() => {
    const timer = setTimeout(() => setCheckedData(data), CHECK_AFTER_MS);
    return () => clearTimeout(timer);
  }, [data]);
  return useLoaded((abort) => post('applications/revisions/check', {
    application_revision: { data: checkedData }, lines: true, ...(base && { from: base.id }),
  }, abort), [base?.id, checkedData]);
}

/** @param {any} checked  @returns {ReadonlyMap<string, string>}  The problems by path. */
function problemsOf(checked) {
  return new Map((checked?.problems ?? []).map((/** @type {any} */ { path, message }) => [path, message]));
}
