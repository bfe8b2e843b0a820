/** The projects whose keys this browser session keeps: one is in use, the others can be chosen. */
import { signal } from '@preact/signals';
import { href, loadAnew } from './address.js';
import { keys, projectOf, useKey } from './api.js';
import { forgetPlaces } from './places.js';

const ITEM = 'clearspan-projects';

/** @typedef {{id: string, name: string, key: string}} Project */

export const projects = signal(stored());

/** @returns {Project[]} */
function stored() {
  try {
    const found = JSON.parse(sessionStorage.getItem(ITEM) ?? '[]');
    return Array.isArray(found) ? found : [];
  } catch {
    return []; // storage is switched off in this browser
  }
}

/** @param {Project[]} kept */
function keep(kept) {
  projects.value = kept;
  try {
    sessionStorage.setItem(ITEM, JSON.stringify(kept));
  } catch { /* they live until the page is closed */ }
}

/** The project in use; `undefined` while it is not known. */
export function currentProject() {
  return projects.value.find(({ key }) => key === keys.value.project);
}

/**
 * Ask for the project of a key, and keep both. An earlier key of the same project is replaced.
 * @param {string} key
 * @returns {Promise<Project>}
 */
export async function addProject(key) {
  const project = { ...await projectOf(key), key };
  keep([...projects.value.filter(({ id }) => id !== project.id), project].toSorted((a, b) => a.name.localeCompare(b.name)));
  return project;
}

/** The name of a project; with the end of its id if another one that is kept has the same name. @param {Project} project */
export function nameOf({ id, name }) {
  return projects.value.some((other) => other.name === name && other.id !== id) ? `${name} ${id.slice(-8)}` : name;
}

/** Use another project. The page begins anew, so that it shows nothing of the one before. @param {Project} project */
export function switchTo({ key }) {
  loadAnew(href(['overview']), () => {
    forgetPlaces();
    useKey('project', key);
  });
}

/** Forget all keys, also the administrator's, and everything that is shown. */
export function signOut() {
  loadAnew(href(['overview']), () => {
    keep([]);
    forgetPlaces();
    useKey('project', '');
    useKey('admin', '');
  });
}
