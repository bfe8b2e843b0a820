/** Reads the members of a span that views show. A span is the object that the API returns. */

/** @typedef {Record<string, any>} Span */

/**
 * @param {Span} span
 * @param {string} path  Names joined by dots.
 * @returns {any}  The value below `attributes`, or `undefined`.
 */
export function attribute(span, path) {
  return path.split('.').reduce((value, name) => (value == null ? undefined : value[name]), span.attributes);
}

/** @param {Span} span  @returns {number} milliseconds */
export function durationOf(span) {
  const nanoseconds = BigInt(span.end_time_unix_nano ?? 0) - BigInt(span.start_time_unix_nano ?? 0);
  return Number(nanoseconds) / 1e6;
}

/** @param {Span} span */
export function serviceOf(span) {
  return span.resource?.attributes?.service?.name ?? '';
}

/** @param {Span} span */
export function modelOf(span) {
  return attribute(span, 'ag.meta.response.model') ?? attribute(span, 'ag.meta.request.model') ?? '';
}

/** @param {Span} span */
export function sessionOf(span) {
  return attribute(span, 'ag.session.id') ?? '';
}

/** @param {Span} span */
export function userOf(span) {
  return attribute(span, 'ag.user.id') ?? '';
}

/** @param {Span} span  @returns {number | undefined} */
export function tokensOf(span) {
  return attribute(span, 'ag.metrics.tokens.incremental.total');
}

/** @param {Span} span  @returns {number | undefined} */
export function costOf(span) {
  return attribute(span, 'ag.metrics.costs.incremental.total');
}

/** @param {Span} span */
export function isError(span) {
  return span.status_code === 'STATUS_CODE_ERROR';
}
