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

effect(() => { document.documentElement.dataset.theme = theme.value; });
