/** Shows an error of what is inside in words, instead of nothing. */
import { html } from 'htm/preact';
import { useErrorBoundary } from 'preact/hooks';
import { ErrorNotice } from './notices.js';

/** @param {{children: any}} props  With another `key` it tries again. */
export function Boundary({ children }) {
  const [error] = useErrorBoundary((failure) => console.error(failure));
  return error ? html`<${ErrorNotice} error=${new Error(`The explorer cannot show this: ${error.message}`)} />` : children;
}
