/** Files that the page hands to the browser. */
import { addressOf, keys, stream } from './api.js';

/** What a file may have that goes through the memory of the page: with a key a link alone cannot load it. */
export const BYTES_MAX = 256 * 1024 ** 2;

/** @param {string} name  @param {Blob} content */
export function saveFile(name, content) {
  const url = URL.createObjectURL(content);
  follow(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/**
 * Save what a route streams. Without a key the browser writes it to the disk by itself, whatever its size.
 * @param {string} path
 * @param {Record<string, string | undefined>} params
 * @param {string} name
 * @param {(bytes: number) => void} progress
 * @param {AbortSignal} abort
 */
export async function download(path, params, name, progress, abort) {
  if (!keys.peek().project) {
    follow(addressOf(path, params), name);
    return;
  }
  const reader = (await stream(path, params, abort)).getReader();
  const pieces = [];
  let bytes = 0;
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    pieces.push(piece.value);
    bytes += piece.value.length;
    progress(bytes);
    if (bytes > BYTES_MAX) {
      await reader.cancel();
      throw new Error(`The file has more than ${BYTES_MAX / 1024 ** 2} MiB, which is the most that the page can hold. Choose a shorter time range, or run clearspan export, which has no limit.`);
    }
  }
  saveFile(name, new Blob(pieces));
}

/** @param {string} url  @param {string} name */
function follow(url, name) {
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.target = '_blank'; // the page itself does not follow it
  link.click();
}
