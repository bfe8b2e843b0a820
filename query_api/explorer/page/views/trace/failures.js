/** The failed spans of a trace: the cause first, and steps from one to the next. `e` and `E` are the keys for it. */
import { html } from 'htm/preact';
import { useLayoutEffect, useMemo } from 'preact/hooks';
import { href, param } from '../../app/address.js';
import { number } from '../../app/format.js';
import { isTyping } from '../../components/shell.js';
import { Steps } from './find.js';

/** @typedef {import('./outline.js').Outline} Outline */

/** @param {{outline: Outline, selected: number, select: (index: number) => void}} props */
export function Failures({ outline, selected, select }) {
  const errors = useMemo(() => indicesOfErrors(outline), [outline]);
  const place = errors.indexOf(selected);
  /** @param {number} step */
  const go = (step) => { if (errors.length) select(errors.at(place === -1 ? (step > 0 ? 0 : -1) : (place + step) % errors.length) ?? -1); };
  useLayoutEffect(() => {
    /** @param {KeyboardEvent} event */
    const onKey = (event) => {
      if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === 'e' || event.key === 'E') go(event.key === 'e' ? 1 : -1);
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });
  if (errors.length === 0) return null;
  const cause = errors[0] ?? 0;
  const address = href(['traces', outline.traceId], { span: outline.spanId[cause], fold: param('fold'), find: param('find') });
  /** @param {MouseEvent} event */
  const show = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    select(cause);
  };
  return html`<div class="failures"><dt>Errors</dt><dd><span class="error-text">${place === -1 ? '' : `${number(place + 1)} of `}${number(errors.length)}</span>
    <a title="The deepest span that failed, the earliest of these" href=${address} onClick=${show}>Show the cause</a>
    ${errors.length > 1 && html`<${Steps} of="failed span" isOn go=${go} />`}</dd></div>`;
}

/** Deepest first in time order: the cause comes before what it failed. @param {Outline} outline */
function indicesOfErrors(outline) {
  const errors = [];
  for (let index = 0; index < outline.count; index += 1) if (outline.isError(index)) errors.push(index);
  return errors.toSorted((a, b) => (outline.errorsBelow[a] ?? 0) - (outline.errorsBelow[b] ?? 0) || a - b);
}
