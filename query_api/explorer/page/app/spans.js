/**
 * Reads the members of a span that views show. A span is the object that the API returns; what applications put into it
 * may have any shape, so a view reads such a member as the text, number, list or object that it needs.
 */

/** @typedef {Record<string, any>} Span */

/**
 * @param {Span} span
 * @param {string} path  Names joined by dots.
 * @returns {any}  The value below `attributes`, or `undefined`.
 */
export function attribute(span, path) {
  return path.split('.').reduce((value, name) => (value == null ? undefined : value[name]), span.attributes);
}

/** A value as text: as it is, or as JSON; `''` if it is absent. @param {unknown} value */
export function textOf(value) {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** The objects of a list; none if the value is no list. @param {unknown} value @returns {Record<string, any>[]} */
export function objectsOf(value) {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** @param {unknown} value @returns {value is Record<string, any>} */
export function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @param {unknown} value @returns {number | undefined} */
export function numberOf(value) {
  return typeof value === 'number' ? value : undefined;
}

/** Whether a span, or a span of a trace in a list, has not ended. @param {Record<string, any>} row */
export function isRunning(row) {
  return row.state === 'running';
}

/** @param {Span} span  @returns {number} milliseconds; 0 while it is running */
export function durationOf(span) {
  if (isRunning(span)) return 0;
  const nanoseconds = BigInt(span.end_time_unix_nano ?? 0) - BigInt(span.start_time_unix_nano ?? 0);
  return Number(nanoseconds) / 1e6;
}

/** @param {Span} span */
export function serviceOf(span) {
  return textOf(span.resource?.attributes?.service?.name);
}

/** @param {Span} span */
export function modelOf(span) {
  return textOf(attribute(span, 'ag.meta.response.model') ?? attribute(span, 'ag.meta.request.model'));
}

/** @param {Span} span */
export function sessionOf(span) {
  return textOf(attribute(span, 'ag.session.id'));
}

/** @param {Span} span */
export function userOf(span) {
  return textOf(attribute(span, 'ag.user.id'));
}

/** @param {Span} span  @returns {number | undefined} */
export function tokensOf(span) {
  return numberOf(attribute(span, 'ag.metrics.tokens.incremental.total'));
}

/** @param {Span} span  @returns {number | undefined} */
export function costOf(span) {
  return numberOf(attribute(span, 'ag.metrics.costs.incremental.total'));
}

/** @param {Span} span */
export function isError(span) {
  return span.status_code === 'STATUS_CODE_ERROR';
}
