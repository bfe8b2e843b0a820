/**
 * Markdown as blocks: headings, paragraphs, lists, quotes, tables, code and rules. Made for messages of models: line ends
 * stay, HTML and indented code are text. Every line is read at most once for each level, and levels are bounded, so any
 * text takes linear time; when `ELEMENTS_MAX` elements are made, the rest stays as it was written.
 */
import { readInline } from './markdown_inline.js';

/** @typedef {import('./markdown_inline.js').Inline} Inline */
/** @typedef {import('./markdown_inline.js').Budget} Budget */
/** @typedef {{blocks: Block[], isDone?: boolean}} Item  `isDone` of a task. */
/**
 * @typedef {{kind: 'heading', level: number, children: Inline[]} | {kind: 'paragraph', children: Inline[]}
 *   | {kind: 'code', language: string, text: string} | {kind: 'quote', blocks: Block[]} | {kind: 'rule'}
 *   | {kind: 'list', start: number | null, items: Item[]}
 *   | {kind: 'table', head: Inline[][], rows: Inline[][][], aligns: string[]}} Block
 */

const ELEMENTS_MAX = 4_000;
const LEVELS_MAX = 6;
const COLUMNS_MAX = 40;
const SHORT_LINE = 500;

const FENCE = /^ {0,3}(`{3,20}|~{3,20})\s*([^\s`]{0,40})[^`]*$/;
/** Not `(.*)`: `.` does not match CR and U+2028, and `\s+` would be tried again from each space before one. */
const HEADING = /^ {0,3}(#{1,6})(?:\s+(\S[^]*)?)?$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,9})([-*+]|\d{1,9}[.)])(?: {1,4}(?=\S)|\s*$)/;

/** What begins a list in the middle of a paragraph: a year at the beginning of a line does not. */
const FIRST_ITEM = /^ {0,9}(?:[-*+]|1[.)]) {1,4}\S/;
const TASK = /^\[([ xX])\] /;
const RULE = /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/;
const DELIMITER = /^ {0,3}\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;

/** @param {string} text  @returns {Block[]} */
export function readMarkdown(text) {
  return blocksOf(text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').split('\n'), 0, { left: ELEMENTS_MAX });
}

/**
 * @param {string[]} lines
 * @param {number} level
 * @param {Budget} budget
 */
function blocksOf(lines, level, budget) {
  /** @type {Block[]} */
  const blocks = [];
  for (let index = 0; index < lines.length;) {
    if (!lines[index]?.trim()) {
      index += 1;
      continue;
    }
    if (budget.left <= 0) {
      blocks.push({ kind: 'paragraph', children: [lines.slice(index).join('\n')] });
      break;
    }
    budget.left -= 1;
    const [block, next] = blockAt(lines, index, level, budget);
    blocks.push(block);
    index = next;
  }
  return blocks;
}

/**
 * @param {string[]} lines
 * @param {number} index
 * @param {number} level
 * @param {Budget} budget
 * @returns {[Block, number]}  The block that begins there, and the line after it.
 */
function blockAt(lines, index, level, budget) {
  const line = lines[index] ?? '';
  const fence = FENCE.exec(line.slice(0, SHORT_LINE));
  if (fence) return codeAt(lines, index, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: 'heading', level: heading[1]?.length ?? 1, children: readInline(withoutMarks(heading[2] ?? ''), budget) }, index + 1];
  if (isRule(line)) return [{ kind: 'rule' }, index + 1];
  if (level < LEVELS_MAX && QUOTE.test(line)) return quoteAt(lines, index, level, budget);
  if (level < LEVELS_MAX && ITEM.test(line)) return listAt(lines, index, level, budget);
  if (isTable(lines, index)) return tableAt(lines, index, budget);
  let end = index + 1;
  while (end < lines.length && !beginsBlock(lines, end, level)) end += 1;
  return [{ kind: 'paragraph', children: readInline(lines.slice(index, end).join('\n'), budget) }, end];
}

/** Whether a paragraph ends before this line. @param {string[]} lines @param {number} index @param {number} level */
function beginsBlock(lines, index, level) {
  const line = lines[index] ?? '';
  return !line.trim() || FENCE.test(line.slice(0, SHORT_LINE)) || HEADING.test(line) || isRule(line)
    || (level < LEVELS_MAX && (QUOTE.test(line) || FIRST_ITEM.test(line))) || isTable(lines, index);
}

/** @param {string[]} lines @param {number} index @param {RegExpExecArray} fence  @returns {[Block, number]} */
function codeAt(lines, index, [, mark = '', language = '']) {
  const isEnd = (/** @type {string} */ line) => line.length < SHORT_LINE && line.trim().length >= mark.length && line.trim().replaceAll(mark[0] ?? '', '') === '';
  let end = index + 1;
  while (end < lines.length && !isEnd(lines[end] ?? '')) end += 1;
  return [{ kind: 'code', language, text: lines.slice(index + 1, end).join('\n') }, end + 1];
}

/** @param {string[]} lines @param {number} index @param {number} level @param {Budget} budget  @returns {[Block, number]} */
function quoteAt(lines, index, level, budget) {
  let end = index + 1;
  while (end < lines.length && QUOTE.test(lines[end] ?? '')) end += 1;
  const inner = lines.slice(index, end).map((line) => line.replace(QUOTE, ''));
  return [{ kind: 'quote', blocks: blocksOf(inner, level + 1, budget) }, end];
}

/** @param {string[]} lines @param {number} index @param {number} level @param {Budget} budget  @returns {[Block, number]} */
function listAt(lines, index, level, budget) {
  const sign = signOf(lines[index] ?? '');
  /** @type {Item[]} */
  const items = [];
  let next = index;
  while (next < lines.length && budget.left > 0 && signOf(lines[next] ?? '') === sign && !isRule(lines[next] ?? '')) {
    budget.left -= 1;
    const [item, end] = itemAt(lines, next, level, budget);
    items.push(item);
    next = end;
  }
  const number = sign === '.' || sign === ')' ? Number.parseInt((lines[index] ?? '').trim(), 10) : null;
  return [{ kind: 'list', start: number, items }, next];
}

/** What the items of a list have in common: their sign. @param {string} line */
function signOf(line) {
  return ITEM.exec(line)?.[2]?.at(-1);
}

/** @param {string[]} lines @param {number} index @param {number} level @param {Budget} budget  @returns {[Item, number]} */
function itemAt(lines, index, level, budget) {
  const line = lines[index] ?? '';
  const [mark = '', indent = ''] = ITEM.exec(line) ?? [];
  const first = line.slice(mark.length);
  const task = TASK.exec(first);
  const inner = [task ? first.slice(task[0].length) : first];
  let next = index + 1;
  for (let end = next; end < lines.length; end += 1) {
    const other = lines[end] ?? '';
    const isBlank = !other.trim();
    const depth = other.length - other.trimStart().length;
    const isLazy = end === next && !ITEM.test(other) && !beginsBlock(lines, end, level);
    if (!isBlank && depth <= indent.length && !isLazy) break;
    if (isBlank && end - next > 2) break;
    if (isBlank) continue;
    while (next < end) inner[next++ - index] = '';
    inner[next++ - index] = other.slice(Math.min(depth, mark.length));
  }
  const blocks = blocksOf(inner, level + 1, budget);
  while (next < lines.length && !lines[next]?.trim() && signOf(lines[next + 1] ?? '') !== undefined) next += 1;
  return [task ? { blocks, isDone: task[1] !== ' ' } : { blocks }, next];
}

/** @param {string[]} lines @param {number} index */
function isTable(lines, index) {
  const [head = '', delimiter = ''] = [lines[index], lines[index + 1]];
  return head.includes('|') && delimiter.length < SHORT_LINE && DELIMITER.test(delimiter) && delimiter.includes('-')
    && cellsOf(head).length === cellsOf(delimiter).length;
}

/** @param {string[]} lines @param {number} index @param {Budget} budget  @returns {[Block, number]} */
function tableAt(lines, index, budget) {
  const read = (/** @type {string} */ line) => cellsOf(line).map((cell) => {
    budget.left -= 1;
    return readInline(cell, budget);
  });
  const aligns = cellsOf(lines[index + 1] ?? '').map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : ''));
  const head = read(lines[index] ?? '');
  const rows = [];
  let end = index + 2;
  while (end < lines.length && lines[end]?.includes('|') && budget.left > 0) rows.push(read(lines[end++] ?? '').slice(0, head.length));
  return [{ kind: 'table', head, rows, aligns }, end];
}

/** @param {string} line */
function cellsOf(line) {
  const inner = line.trim().replace(/^\|/, '');
  const cells = [];
  let cell = '';
  for (let index = 0; index < inner.length && cells.length < COLUMNS_MAX; index += 1) {
    if (inner[index] === '\\' && inner[index + 1] === '|') {
      cell += '|';
      index += 1;
    } else if (inner[index] === '|') {
      cells.push(cell.trim());
      cell = '';
    } else {
      cell += inner[index];
    }
  }
  if (cell.trim() || !inner.endsWith('|')) cells.push(cell.trim());
  return cells;
}

/** @param {string} line */
function isRule(line) {
  return line.length < SHORT_LINE && RULE.test(line);
}

/** Signs at the end of a heading only close it. @param {string} text */
function withoutMarks(text) {
  const inner = text.trimEnd();
  let end = inner.length;
  while (inner[end - 1] === '#') end -= 1;
  return end < inner.length && (end === 0 || inner[end - 1] === ' ') ? inner.slice(0, end).trimEnd() : inner;
}
