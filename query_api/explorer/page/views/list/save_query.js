/** Save the filter, the time range and the order of a list as a saved query: its first revision, or the next one of a query. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { href, navigate } from '../../app/address.js';
import { post } from '../../app/api.js';
import { Dialog } from '../../components/shell.js';

/** @param {{filter: object, windowing: object, focus: 'trace' | 'span'}} props */
export function SaveQuery({ filter, windowing, focus }) {
  const [isOpen, setOpen] = useState(false);
  const [problem, setProblem] = useState('');
  /** @param {SubmitEvent} event */
  const save = async (event) => {
    event.preventDefault();
    const name = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('name') ?? '').trim();
    const slug = name.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '');
    try {
      const data = { filtering: filter, windowing, formatting: { focus } };
      await post('simple/queries/', { query: { slug, name, data } });
      setOpen(false);
      navigate(href(['queries', slug]));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return html`<button onClick=${() => setOpen(true)}>Save</button>
    ${isOpen && html`<${Dialog} title="Save this view as a query" close=${() => setOpen(false)}>
      <form onSubmit=${save}>
        <label>Name <input name="name" required maxlength="100" autocomplete="off" /></label>
        ${problem && html`<p class="chip-problem" role="alert">${problem}</p>`}
        <button class="primary">Save</button>
      </form>
    </${Dialog}>`}`;
}
