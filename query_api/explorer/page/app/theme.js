/** Light or dark: as the system says, until the person chooses. The choice is kept in this browser. */
import { effect, signal } from '@preact/signals';

const ITEM = 'clearspan-theme';

/** @type {import('@preact/signals').Signal<string>} */
export const theme = signal(read());

function read() {
  try {
    return localStorage.getItem(ITEM) ?? 'system';
  } catch {
    return 'system';
  }
}

export function isDark() {
  return theme.value === 'dark' || (theme.value === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
}

export function toggleTheme() {
  theme.value = isDark() ? 'light' : 'dark';
  try {
    localStorage.setItem(ITEM, theme.value);
  } catch { /* the choice lives until the page is closed */ }
}

/**
 * Return a color of the page as a canvas takes it.
 * @param {Element} element  Where it is used.
 * @param {string} name  The variable, such as `--bar`.
 */
export function colorOf(element, name) {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  element.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

effect(() => { document.documentElement.dataset.theme = theme.value; });
