/** Which dead letters a list shows and "all" resolves. The address holds it. */
import { html } from 'htm/preact';
import { param, setParams } from '../../app/address.js';
import { rangeMs, TimeRange, timeRange } from '../../components/time_range.js';

/** @typedef {{code?: string, topic?: string, project?: string, oldest?: string, newest?: string}} LetterFilter  As the API takes it. */

const FIELDS = [['code', 'Code'], ['topic', 'Topic'], ['project', 'Project']];

/** The filter of the address; times relative to now are resolved. @returns {LetterFilter} */
export function letterFilter() {
  const { from, to } = rangeMs(timeRange());
  const time = (/** @type {number | null} */ ms) => (ms === null ? undefined : new Date(ms).toISOString());
  const of = (/** @type {string} */ name) => param(name) ?? undefined;
  return { code: of('code'), topic: of('topic'), project: of('project'), oldest: time(from), newest: time(to) };
}

export function LetterFields() {
  return html`${FIELDS.map(([name = '', title]) => html`<input aria-label=${title} placeholder=${title} value=${param(name) ?? ''}
    onChange=${(/** @type {any} */ event) => setParams({ [name]: event.target.value.trim() })} />`)}<${TimeRange} />`;
}
