/** Slugs of what people name. */

const LENGTH_MAX = 100;

/**
 * What of a name can stand in a slug: ASCII letters and digits, `_`, `.` and `-`; other letters without their accents.
 * @param {string} name
 */
export function readableSlug(name) {
  const letters = name.trim().normalize('NFKD').replace(/\p{M}+/gu, '');
  return letters.replace(/[^A-Za-z0-9_.-]+/g, '-').replace(/^[.-]+|-+$/g, '').slice(0, LENGTH_MAX);
}

/**
 * The slug of a name. Names that differ in other letters have different slugs, by a hash of the name at the end; so has a
 * name of which nothing remains.
 * @param {string} name
 */
export function slugOf(name) {
  const [text, slug] = [name.trim().normalize('NFC'), readableSlug(name)];
  return slug && /^\p{ASCII}*$/u.test(text) ? slug : [slug, hashOf(text)].filter(Boolean).join('-');
}

/** FNV-1a of the UTF-16 code units, 32 bits. @param {string} text */
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return (hash >>> 0).toString(36);
}
