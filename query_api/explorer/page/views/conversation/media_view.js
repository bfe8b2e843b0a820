/** An image, a sound or a file of a message. What is elsewhere is an address: the page never loads it. */
import { html } from 'htm/preact';
import { saveFile } from '../../app/download.js';
import { bytes } from '../../app/format.js';
import { safeAddress } from '../../app/markdown_inline.js';
import { LongText } from '../../components/json_tree.js';
import { Link } from '../../components/markdown.js';

/** @typedef {import('../../app/media.js').Media} Media */

/** @param {{media: Media}} props */
export function MediaView({ media }) {
  const { kind, type, name, base64, width, height } = media;
  const address = `data:${type};base64,${base64}`;
  return html`<figure class="media media-${kind}">
    ${kind === 'image' && html`<img src=${address} width=${width} height=${height} alt=${name || 'Image of the message'} loading="lazy" decoding="async" />`}
    ${kind === 'audio' && html`<audio controls preload="none" src=${address} aria-label=${name || 'Sound of the message'}></audio>`}
    <figcaption>${kind === 'file' && html`<span class="file-mark" aria-hidden="true">▤</span>`}<${Caption} media=${media} /></figcaption>
    ${media.text !== undefined && html`<p class="text"><${LongText} text=${media.text} /></p>`}
  </figure>`;
}

/** @param {{media: Media}} props */
function Caption({ media }) {
  const { kind, type, name, base64, size, width, height, address, id } = media;
  const href = address === undefined ? undefined : safeAddress(address);
  const facts = [type, kind === 'image' && `${width} × ${height}`, size !== undefined && bytes(size)].filter(Boolean).join(', ');
  return html`<span><bdi>${name}</bdi> <span class="soft">${facts}</span>
      ${address !== undefined && (href ? html` <${Link} href=${href}>${href}</${Link}> <span class="soft">not loaded</span>` : html` <span class="soft">at <bdi>${address}</bdi></span>`)}
      ${id !== undefined && html` <span class="soft">stored by the provider as <code>${id}</code></span>`}</span>
    ${base64 !== undefined && html`<button class="quiet" onClick=${() => download(media)}>Download</button>`}`;
}

/** Save the bytes under their name; the browser is not told a type, so it never opens them. @param {Media} media */
function download({ base64 = '', name, type }) {
  const content = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  const fileName = name || `message.${/^[\w.+-]+\/([\w.+-]+)$/.exec(type)?.[1] ?? 'bin'}`;
  saveFile(fileName, new Blob([content], { type: 'application/octet-stream' }));
}
