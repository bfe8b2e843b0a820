/** A time in the local zone; the exact time in UTC is its title. */
import { html } from 'htm/preact';
import { localTime } from '../app/format.js';

/** @param {{value: string | null | undefined, milliseconds?: boolean}} props */
export function Time({ value, milliseconds = false }) {
  if (!value) return null;
  return html`<time datetime=${value} title=${value}>${localTime(value, { milliseconds })}</time>`;
}
