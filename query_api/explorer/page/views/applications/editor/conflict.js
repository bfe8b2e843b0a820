/** Somebody else committed meanwhile: says who, shows what, and goes on from there with what was typed. */
import { html } from 'htm/preact';
import { href } from '../../../app/address.js';
import { Time } from '../../../components/time.js';
import { Author } from '../author.js';

/** @param {{slug: string, base: any, theirs: any, goOn: () => void}} props */
export function Conflict({ slug, base, theirs, goOn }) {
  const target = href(['applications', slug, 'compare'], { from: base.id, to: theirs.id });
  return html`<div class="notice error" role="alert">
    <p>Somebody committed version ${theirs.version} while you were editing version ${base.version}: ${theirs.message ?? 'no message'}, <${Author} id=${theirs.author} />, <${Time} value=${theirs.created_at} />. Nothing of yours is lost.</p>
    <p><a href=${target} target="_blank" rel="noreferrer noopener">What they changed</a> (in another tab)</p>
    <p><button type="button" onClick=${goOn}>Go on from version ${theirs.version}</button> <span class="soft">Then “What will change” compares your text with theirs. Take over what you want to keep of it, and commit again.</span></p>
  </div>`;
}
