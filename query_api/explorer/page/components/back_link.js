/** A link to the page from which a view was opened, as that page was then. */
import { html } from 'htm/preact';
import { pageBefore } from '../app/address.js';
import { pageName } from '../app/title.js';

/** @param {{to: string}} props  The view to which it leads if the page was opened without another. */
export function BackLink({ to }) {
  const { target, path } = pageBefore(to);
  return html`<a class="quiet" rel="prev" href=${target} aria-label="Back to the ${pageName(path).toLowerCase()}">←</a>`;
}
