/**
 * Commands for a terminal. A command that needs a key names the variable that `clearspan` reads, and never holds the key:
 * a key on the page would be in pictures of it, and a key in a command is in the history of the shell.
 */
import { html } from 'htm/preact';
import { API, keys } from '../app/api.js';
import { CopyButton } from './copy.js';

const VARIABLE = 'CLEARSPAN_KEY';

/** The header of a `curl` command, after a space; empty if the API wants no key. */
export function keyHeader() {
  return keys.value.project ? ` -H "Authorization: ApiKey $${VARIABLE}"` : '';
}

/** A text as one word of a shell. @param {string} text */
export function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A `curl` command that posts a body. @param {string} path  @param {object} body */
export function curlOf(path, body) {
  return `curl -sS ${quoted(new URL(path, API).href)}${keyHeader()} -H 'Content-Type: application/json' \\
  -d ${quoted(JSON.stringify(body))}`;
}

/** The variables of an OpenTelemetry SDK that sends to an address. @param {string} endpoint */
export function otlpVariables(endpoint) {
  const headers = keys.value.project ? `\nexport OTEL_EXPORTER_OTLP_HEADERS="Authorization=ApiKey%20$${VARIABLE}"` : '';
  return `export OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint}${headers}`;
}

/** How to set the variable, where the API wants a key. The button copies the key; the page does not show it. */
export function SetKey() {
  const key = keys.value.project;
  if (!key) return null;
  const setting = (/** @type {string} */ value) => `export ${VARIABLE}='${value}'`;
  return html`<p>Commands read your API key from the variable <code>${VARIABLE}</code>. Set it first:</p>
    <pre>${setting('your-key')}</pre>
    <p><${CopyButton} text=${() => setting(key)} label="Copy this line with your key" /></p>`;
}
