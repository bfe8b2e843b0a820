/** Dialogs that create applications and variants. A new one opens in the editor. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { href, navigate } from '../../app/address.js';
import { call, post } from '../../app/api.js';
import { useReadOnlyReason } from '../../app/access.js';
import { readableSlug } from '../../app/slug.js';
import { Dialog } from '../../components/shell.js';

const NOTHING = '';

/** The variant that a new application begins with. */
const FIRST = { slug: 'main', name: 'Main' };

/**
 * A button that opens a form with a name and a slug.
 * @param {{label: string, title: string, prefix?: string, submitLabel: string, explanation: any, create: (values: FormData) => Promise<void>, children?: any}} props
 *   `prefix` begins the slug. `children` are further fields.
 */
function Creating({ label, title, prefix = '', submitLabel, explanation, create, children }) {
  const [isOpen, setOpen] = useState(false);
  const [slug, setSlug] = useState('');
  const [problem, setProblem] = useState('');
  const readOnly = useReadOnlyReason();
  /** @param {SubmitEvent} event */
  const submit = async (event) => {
    event.preventDefault();
    try {
      await create(new FormData(/** @type {HTMLFormElement} */ (event.target)));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const open = () => {
    setSlug(prefix);
    setProblem('');
    setOpen(true);
  };
  return html`<button onClick=${open} disabled=${readOnly !== null} title=${readOnly}>${label}</button>
    ${isOpen && html`<${Dialog} title=${title} close=${() => setOpen(false)}><form onSubmit=${submit}>
      <label>Name <input name="name" required maxlength="200" autocomplete="off" onInput=${(/** @type {any} */ event) => setSlug(prefix + readableSlug(event.target.value.toLowerCase()))} /></label>
      <label>Slug <input name="slug" required maxlength="200" pattern="[A-Za-z0-9_\\-][A-Za-z0-9_.\\-]*" title="Letters, digits, - _ and ." autocomplete="off" value=${slug} onInput=${(/** @type {any} */ event) => setSlug(event.target.value)} /></label>
      ${children}
      <p class="soft">${explanation}</p>
      ${problem && html`<p class="error-text" role="alert">${problem}</p>`}
      <button class="primary">${submitLabel}</button>
    </form></${Dialog}>`}`;
}

export function NewApplication() {
  const create = async (/** @type {FormData} */ values) => {
    const [name, slug, description] = ['name', 'slug', 'description'].map((field) => String(values.get(field) ?? '').trim());
    const { application } = await post('applications/', { application: { slug, name, flags: {}, ...(description && { description }) } });
    const variant = { application_id: application.id, slug: `${slug}.${FIRST.slug}`, name: FIRST.name };
    await post('applications/variants/', { application_variant: variant });
    navigate(href(['applications', application.slug, 'edit'], { variant: variant.slug }));
  };
  return html`<${Creating} label="New application" title="New application" submitLabel="Create, and write its prompt" create=${create}
    explanation=${html`Programs name it by its slug, which never changes. It begins with the variant <code>${FIRST.slug}</code>.`}>
    <label>Description <input name="description" maxlength="1000" autocomplete="off" placeholder="optional" /></label>
  </${Creating}>`;
}

/** @param {{application: any, variants: any[]}} props */
export function NewVariant({ application, variants }) {
  const create = async (/** @type {FormData} */ values) => {
    const [name, slug, source] = ['name', 'slug', 'source'].map((field) => String(values.get(field) ?? '').trim());
    if (source === NOTHING) await post('applications/variants/', { application_variant: { application_id: application.id, slug, name } });
    else await fork({ slug, name }, { application_variant_ref: { id: source } });
    navigate(href(['applications', application.slug, 'edit'], { variant: slug }));
  };
  return html`<${Creating} label="New variant" title=${`New variant of ${application.name || application.slug}`} prefix=${`${application.slug}.`} submitLabel="Create, and edit it" create=${create}
    explanation="A variant is a line of its own, like a branch: what is committed to it changes no other.">
    <label>Begin with <select name="source">
      ${variants.map((variant) => html`<option value=${variant.id}>The versions of ${variant.name || variant.slug} (a fork)</option>`)}
      <option value=${NOTHING}>Nothing</option></select></label>
  </${Creating}>`;
}

/** @param {{slug: string, revision: any}} props  `slug` is the one of the application. */
export function ForkFromHere({ slug: application, revision }) {
  const create = async (/** @type {FormData} */ values) => {
    const [name, slug] = ['name', 'slug'].map((field) => String(values.get(field) ?? '').trim());
    await fork({ slug, name }, { application_variant_ref: { id: revision.application_variant_id }, application_revision_ref: { id: revision.id } });
    navigate(href(['applications', application, 'edit'], { variant: slug }));
  };
  return html`<${Creating} label="Fork from here" title=${`Fork from version ${revision.version}`} prefix=${`${application}.`} submitLabel="Fork, and edit it" create=${create}
    explanation=${`The new variant has the versions of ${revision.application_variant_slug} up to ${revision.version}.`} />`;
}

/** @param {{slug?: string, name?: string}} variant  @param {object} source */
function fork(variant, source) {
  return post('applications/variants/fork', { application_variant: variant, ...source });
}

/** Archives something, or takes it back. @param {{path: string, isArchived: boolean, what: string, done: () => void}} props */
export function Archive({ path, isArchived, what, done }) {
  const [problem, setProblem] = useState('');
  const readOnly = useReadOnlyReason();
  const run = async () => {
    if (!isArchived && !confirm(`Archive ${what}? It is hidden from lists and stays readable by its id; you can take it back.`)) return;
    try {
      await call('POST', `${path}/${isArchived ? 'unarchive' : 'archive'}`);
      done();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return html`<button class="quiet" disabled=${readOnly !== null} title=${readOnly} onClick=${run}>${isArchived ? 'Restore' : 'Archive'}</button>${problem && html`<span class="error-text" role="alert">${problem}</span>`}`;
}
