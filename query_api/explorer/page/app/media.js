/**
 * Images, sound and files in messages, in every spelling that libraries send: parts of OpenAI (`image_url`, `input_audio`,
 * `input_file`), of OpenTelemetry's GenAI (`blob`, `uri`, `file`), of Anthropic (`source`), Gemini (`inline_data`), the AI
 * SDK, MCP and OpenInference. What is in the message is shown if its first bytes are those of a safe type, whatever type
 * was said; the page loads nothing from other hosts.
 */
import { isObject, textOf } from './spans.js';

/**
 * @typedef {{kind: 'image' | 'audio' | 'file', type: string, name: string, base64?: string, text?: string, address?: string,
 *   id?: string, size?: number, width?: number, height?: number}} Media
 *   `base64` and `size` in bytes of what is in the message, `address` of what is not. An image has its pixels.
 */

const PIXELS_MAX = 40_000_000;

/** How much of it is read to tell what it is, in signs of base64: a multiple of four. */
const HEAD_MAX = 350_000;
const TYPES = new Set([
  'image', 'image_url', 'input_image', 'image-url', 'image_file', 'audio', 'input_audio', 'output_audio', 'audio-url', 'video', 'video_url', 'video-url',
  'file', 'input_file', 'document', 'document-url', 'blob', 'uri', 'binary', 'media', 'resource', 'resource_link', 'image_generation_call',
]);
const HOLDERS = ['image_url', 'input_audio', 'audio', 'image', 'video', 'file', 'file_data', 'fileData', 'inline_data', 'inlineData', 'document', 'resource', 'source'];
const NAMES = /** @type {const} */ ({
  data: ['data', 'file_data', 'base64', 'bytes', 'blob', 'result'],
  address: ['url', 'uri', 'file_url', 'file_uri', 'fileUri', 'image_url'],
  type: ['mime_type', 'media_type', 'mimeType', 'mediaType', 'format'],
  name: ['filename', 'file_name', 'title', 'display_name', 'name'],
  id: ['file_id', 'fileId'],
});
const MAGIC = /** @type {[RegExp, 'image' | 'audio', string][]} */ ([
  [/^\x89PNG\r\n\x1a\n/, 'image', 'image/png'], [/^\xff\xd8\xff/, 'image', 'image/jpeg'], [/^GIF8[79]a/, 'image', 'image/gif'],
  [/^RIFF.{4}WEBP/s, 'image', 'image/webp'], [/^RIFF.{4}WAVE/s, 'audio', 'audio/wav'], [/^OggS/, 'audio', 'audio/ogg'],
  [/^ID3|^\xff[\xe2\xe3\xf2\xf3\xfa\xfb]/, 'audio', 'audio/mpeg'], [/^fLaC/, 'audio', 'audio/flac'], [/^.{4}ftypM4A/s, 'audio', 'audio/mp4'],
  [/^\xff[\xf0\xf1\xf8\xf9]/, 'audio', 'audio/aac'],
]);

/** The image, sound or file that a part of a message is; `null` if it is none. @param {Record<string, any>} part  @returns {Media | null} */
export function mediaOf(part) {
  const isTyped = TYPES.has(part.type);
  if (!isTyped && (part.type !== undefined || !HOLDERS.some((name) => isObject(part[name])))) return null;
  const objects = holdersOf(part);
  const first = (/** @type {keyof typeof NAMES} */ what) => firstText(objects, NAMES[what]);
  const data = first('data') ?? (part.type === 'blob' || part.type === 'binary' ? firstText([part], ['content', 'image', 'audio']) : undefined);
  const said = { type: first('type') ?? '', name: first('name') ?? '' };
  const id = first('id');
  if (part.source?.type === 'text') return { kind: 'file', ...said, text: data ?? '' };
  const other = HOLDERS.map((name) => part[name]).find((value) => typeof value === 'string');
  return mediaFrom(data ?? first('address') ?? other, said, data !== undefined) ?? (id === undefined ? null : { kind: 'file', ...said, id });
}

/**
 * @param {string | undefined} value  An address, a `data:` address or base64.
 * @param {{type: string, name: string}} said
 * @param {boolean} isData
 * @returns {Media | null}
 */
function mediaFrom(value, said, isData) {
  if (value === undefined) return null;
  const inline = /^data:([^,;]{0,100})[^,]{0,100},/i.exec(value);
  if (inline && /;base64,$/i.test(inline[0])) return ofBytes(value.slice(inline[0].length), { ...said, type: inline[1] || said.type });
  if (inline) return { kind: 'file', ...said, type: inline[1] ?? '', text: value.slice(inline[0].length) };
  if (/^[a-z][a-z0-9+.-]{1,20}:/i.test(value)) return { kind: 'file', ...said, address: value };
  return isData || value.length > 200 ? ofBytes(value, said) : { kind: 'file', ...said, address: value };
}

/** @param {string} sent @param {{type: string, name: string}} said  @returns {Media} */
function ofBytes(sent, said) {
  const base64 = withoutPadding(sent.replace(/\s+/g, '').replaceAll('-', '+').replaceAll('_', '/'));
  if (!/^[A-Za-z0-9+/]*$/.test(base64) || base64.length % 4 === 1) return { kind: 'file', ...said, text: sent };
  const size = Math.floor(base64.length * 3 / 4);
  const head = atob(base64.slice(0, HEAD_MAX));
  const [, kind, type] = MAGIC.find(([magic]) => magic.test(head.slice(0, 16))) ?? [];
  if (kind === 'audio' && type) return { kind, ...said, type, base64, size };
  const pixels = kind === 'image' && type ? pixelsOf(head, type) : undefined;
  if (!pixels || pixels.width * pixels.height > PIXELS_MAX || pixels.width * pixels.height === 0) return { kind: 'file', ...said, base64, size };
  return { kind: 'image', ...said, type: /** @type {string} */ (type), base64, size, ...pixels };
}

/** @param {string} base64 */
function withoutPadding(base64) {
  let end = base64.length;
  while (base64[end - 1] === '=') end -= 1;
  return base64.slice(0, end);
}

/** The part and the objects in it that may hold what is wanted, the inner ones first. @param {Record<string, any>} part */
function holdersOf(part) {
  const inner = HOLDERS.map((name) => part[name]).filter(isObject);
  return [...inner.flatMap((one) => ['image', 'source', 'file'].map((name) => one[name]).filter(isObject)), ...inner, part];
}

/** @param {Record<string, any>[]} objects @param {readonly string[]} names */
function firstText(objects, names) {
  for (const object of objects) {
    for (const name of names) if (typeof object[name] === 'string' && object[name]) return textOf(object[name]);
  }
  return undefined;
}

/**
 * The pixels of an image, read from its first bytes, so that nothing moves when it is shown, and a small file that
 * unfolds to a huge picture is none.
 * @param {string} head  A sign for each byte.
 * @param {string} type
 * @returns {{width: number, height: number} | undefined}
 */
function pixelsOf(head, type) {
  const byte = (/** @type {number} */ index) => head.charCodeAt(index);
  const big = (/** @type {number} */ index, count = 2) => [...Array(count).keys()].reduce((sum, step) => sum * 256 + byte(index + step), 0);
  const little = (/** @type {number} */ index, count = 2) => [...Array(count).keys()].reduceRight((sum, step) => sum * 256 + byte(index + step), 0);
  /** @type {[number, number]} */
  let size = [Number.NaN, Number.NaN];
  if (type === 'image/png') size = [big(16, 4), big(20, 4)];
  if (type === 'image/gif') size = [little(6), little(8)];
  if (type === 'image/jpeg') size = sizeOfJpeg(head, byte, big);
  if (type === 'image/webp') {
    const chunk = head.slice(12, 16);
    if (chunk === 'VP8X') size = [little(24, 3) + 1, little(27, 3) + 1];
    if (chunk === 'VP8 ') size = [little(26) & 0x3fff, little(28) & 0x3fff];
    if (chunk === 'VP8L') size = [(little(21) & 0x3fff) + 1, ((little(22, 3) >> 6) & 0x3fff) + 1];
  }
  const [width, height] = size;
  return Number.isFinite(width * height) ? { width, height } : undefined;
}

/**
 * @param {string} head
 * @param {(index: number) => number} byte
 * @param {(index: number) => number} big
 * @returns {[number, number]}
 */
function sizeOfJpeg(head, byte, big) {
  for (let index = 2; index + 9 < head.length && byte(index) === 0xff;) {
    const marker = byte(index + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return [big(index + 7), big(index + 5)];
    index += marker === 0xff ? 1 : 2 + big(index + 2);
  }
  return [Number.NaN, Number.NaN];
}
