/** What this browser remembers of a person's choices: small JSON values. Broken or foreign contents count as nothing. */

const PREFIX = 'clearspan-';
const LENGTH_MAX = 20_000;

/** @param {string} item  @returns {unknown}  `null` if nothing is remembered. */
export function remembered(item) {
  try {
    const text = localStorage.getItem(PREFIX + item);
    return text === null || text.length > LENGTH_MAX ? null : JSON.parse(text);
  } catch {
    return null; // storage is switched off, or holds something else
  }
}

/** @param {string} item  @param {unknown} value  `null` forgets it. */
export function remember(item, value) {
  try {
    const text = JSON.stringify(value);
    if (value === null) localStorage.removeItem(PREFIX + item);
    else if (text.length <= LENGTH_MAX) localStorage.setItem(PREFIX + item, text);
  } catch { /* the choice lives until the page is closed */ }
}
