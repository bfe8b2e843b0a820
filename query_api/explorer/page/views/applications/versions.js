/** The versions of a variant, newest first, with what their spans took. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { href } from '../../app/address.js';
import { useLoaded } from '../../app/loading.js';
import { Time } from '../../components/time.js';
import { Author } from './author.js';
import { DeployedIn } from './environments.js';
import { FIGURES, loadFigures, scoreHref, scoreValue, figureHref } from './figures.js';

/** Figures are loaded for each version, so a list begins with the newest ones. */
const ROWS = 10;
const SHOWN = FIGURES.filter(({ name }) => ['traces', 'errors', 'cost', 'p50'].includes(name));
const NAMES_MAX = 2;

/** Figures on a narrow page. */
const NARROW_MAX = 2;

/**
 * @param {{slug: string, revisions: any[], environments: readonly import('./environments.js').Environment[], names: readonly string[]}} props
 *   `names` are those of scores.
 */
export function Versions({ slug, revisions, environments, names }) {
  const [count, setCount] = useState(ROWS);
  const newestFirst = revisions.toSorted((a, b) => Number(b.version) - Number(a.version));
  const shownNames = names.slice(0, NAMES_MAX);
  if (newestFirst.length === 0) return html`<p class="soft">No revision yet.</p>`;
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Versions"><table class="plain versions"><thead><tr>
      <th>Version</th><th>Message</th><th class="wide">Author</th><th class="wide">Committed</th>
      ${SHOWN.map(({ name, title }, place) => html`<th key=${name} class="numeric ${isWide(place) ? 'wide' : ''}">${title}</th>`)}
      ${shownNames.map((name) => html`<th class="numeric wide"><bdi>${name}</bdi></th>`)}<th></th></tr></thead><tbody>
      ${newestFirst.slice(0, count).map((revision, place) => html`<${Version} key=${revision.id} slug=${slug} revision=${revision} before=${newestFirst[place + 1]}
        environments=${environments} names=${shownNames} />`)}
    </tbody></table></div>
    ${newestFirst.length > count && html`<p><button class="quiet" onClick=${() => setCount(count + ROWS)}>Show older versions (${newestFirst.length - count} left)</button></p>`}`;
}

/** @param {{slug: string, revision: any, before: any, environments: readonly import('./environments.js').Environment[], names: readonly string[]}} props */
function Version({ slug, revision, before, environments, names }) {
  return html`<tr>
    <td class="whole"><a href=${href(['applications', slug, 'revisions', revision.id])}>v${revision.version}</a> <${DeployedIn} environments=${environments} id=${revision.id} /></td>
    <td>${revision.message ?? html`<span class="soft">${revision.data ? '' : 'no data'}</span>`}</td>
    <td class="wide"><${Author} id=${revision.author} /></td><td class="wide"><${Time} value=${revision.created_at} /></td>
    <${FigureCells} id=${revision.id} names=${names} />
    <td class="action">${before && html`<a href=${href(['applications', slug, 'compare'], { from: before.id, to: revision.id })}>What changed</a>`}</td></tr>`;
}

/** @param {{id: string, names: readonly string[]}} props */
function FigureCells({ id, names }) {
  const loaded = useLoaded((abort) => loadFigures(id, {}, names, abort), [id, names.join('\n')]);
  const cells = SHOWN.length + names.length;
  if (loaded.error) return html`<td colspan=${cells} class="error-text">${loaded.error.message}</td>`;
  if (!loaded.data) return Array.from({ length: cells }, (_, place) => html`<td class="numeric soft ${isWide(place) ? 'wide' : ''}">…</td>`);
  const { counts, scores } = loaded.data;
  return html`${SHOWN.map((figure, place) => html`<td class="numeric ${isWide(place) ? 'wide' : ''}">${counts.spans > 0 && figure.text(counts) && html`<a href=${figureHref(counts, figure)}>${figure.text(counts)}</a>`}</td>`)}
    ${names.map((name) => html`<td class="numeric wide">${scores[name] !== undefined && html`<a href=${scoreHref(counts, name)}>${scoreValue(scores[name] ?? 0)}</a>`}</td>`)}`;
}

/** Whether a narrow page has no room for a figure. @param {number} place */
function isWide(place) {
  return place >= NARROW_MAX;
}
