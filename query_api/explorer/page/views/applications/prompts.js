/** Finds the messages of prompts in the data of a revision, wherever an application keeps them. */
import { isObject } from '../../app/spans.js';

const DEPTH_MAX = 8;

/** @typedef {{role: string, [member: string]: unknown}} Message */
/** @typedef {{path: string, messages: Message[]}} MessageList  `path` are names joined by dots. */

/** @param {unknown} value  @returns {value is Message[]} */
export function isMessages(value) {
  return Array.isArray(value) && value.length > 0 && value.every((each) => isObject(each) && typeof each.role === 'string');
}

/** @param {unknown} data  @returns {MessageList[]} */
export function messageLists(data, path = '', depth = 0) {
  if (isMessages(data)) return [{ path, messages: data }];
  if (!isObject(data) || depth === DEPTH_MAX) return [];
  return Object.entries(data).flatMap(([name, value]) => messageLists(value, path ? `${path}.${name}` : name, depth + 1));
}
