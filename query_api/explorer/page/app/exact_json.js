/**
 * JSON whose numbers keep their digits: `1.0` and integers beyond 2⁵³ are written back as they were read. Such a number is
 * what `JSON.rawJSON` returns; a browser that lacks it reads numbers as usual.
 */

const native = /** @type {any} */ (JSON);
const isExact = typeof native.rawJSON === 'function';

/** @param {string} text  @returns {any}  Throws `SyntaxError`. */
export function parseExact(text) {
  if (!isExact) return JSON.parse(text);
  const revive = (/** @type {string} */ _name, /** @type {unknown} */ value, /** @type {any} */ context) => (
    typeof value === 'number' && context?.source !== undefined && String(value) !== context.source ? native.rawJSON(context.source) : value
  );
  return JSON.parse(text, /** @type {any} */ (revive));
}

/** The digits of a number, also of one that was read exactly; `null` for any other value. @param {unknown} value */
export function digitsOf(value) {
  if (typeof value === 'number') return String(value);
  return isExact && native.isRawJSON(value) ? String(/** @type {any} */ (value).rawJSON) : null;
}
