/** The project whose data the page shows, the other projects whose keys it keeps, and signing out. Absent without a key. */
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import { keys } from '../app/api.js';
import { addProject, currentProject, nameOf, projects, signOut, switchTo } from '../app/projects.js';
import { Menu } from './menu.js';
import { Dialog } from './shell.js';

export function ProjectMenu() {
  const { project: key, admin } = keys.value;
  const [isAdding, setAdding] = useState(false);
  const current = currentProject();
  useEffect(() => {
    if (key && !current) addProject(key).catch(() => { /* the view says that the key was refused */ });
  }, [key]);
  if (!key && !admin) return null;
  const name = current ? nameOf(current) : (key ? 'Project' : 'Administrator');
  return html`<${Menu} label=${html`<bdi>${name}</bdi>`} title="The project, and signing out" align="right" class="project-menu">${(/** @type {() => void} */ close) => html`
      ${projects.value.map((project) => html`<button class="item" key=${project.id} aria-pressed=${project === current}
        onClick=${() => { close(); if (project !== current) switchTo(project); }}><bdi>${nameOf(project)}</bdi></button>`)}
      <button class="item" onClick=${() => { close(); setAdding(true); }}>Another project…</button>
      <button class="item" onClick=${signOut}>Sign out</button>`}
    </${Menu}>
    ${isAdding && html`<${AddKey} close=${() => setAdding(false)} />`}`;
}

/** @param {{close: () => void}} props */
function AddKey({ close }) {
  const [problem, setProblem] = useState('');
  /** @param {SubmitEvent} event */
  const add = async (event) => {
    event.preventDefault();
    const key = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('key') ?? '').trim();
    try {
      if (key) switchTo(await addProject(key));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return html`<${Dialog} title="Another project" close=${close}>
    <form onSubmit=${add}>
      <label>Key <input type="password" name="key" autocomplete="off" /></label>
      ${problem && html`<p class="error-text" role="alert">${problem}</p>`}
      <p class="soft">A key belongs to one project. This page keeps the keys until you sign out or close the browser tab.</p>
      <button class="primary">Use this key</button>
    </form></${Dialog}>`;
}
