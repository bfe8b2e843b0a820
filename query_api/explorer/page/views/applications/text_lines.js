/** Two texts line by line, as `GET /applications/revisions/diff?lines=true` compares them. */
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';

/** Lines that are the same, shown around each change. */
const LINES_AROUND = 3;

/** Rows that a table shows at first, and that each click adds. */
const ROWS_MAX = 1_000;

/** @typedef {{op: 'same' | 'removed' | 'added', text: string}} Part */
/** @typedef {{op: 'same' | 'removed' | 'added' | 'changed', from?: number, to?: number, count?: number, text?: string, words?: Part[]}} LineChange */
/** @typedef {{number: number, parts: Part[]}} Side  One line of one text. */
/** @typedef {{op: 'same' | 'changed', old?: Side, new?: Side} | {op: 'folded', count: number, place: number}} Row */

/** @param {{from: string, to: string, lines: LineChange[], layout: import('./layout.js').Layout}} props */
export function TextLines({ from, lines, layout }) {
  const [unfolded, setUnfolded] = useState(/** @type {readonly number[]} */ ([]));
  const rows = rowsOf(lines, from.split('\n'), unfolded);
  const unfold = (/** @type {number} */ place) => setUnfolded([...unfolded, place]);
  const columnsCount = layout === 'columns' ? 4 : 2;
  const [shown, more] = useBeginning(rows, columnsCount);
  return html`<table class="diff ${layout}"><${Columns} count=${columnsCount} /><tbody>
    ${shown.map((row) => (row.op === 'folded'
      ? html`<tr class="folded"><td colspan=${columnsCount}><button class="quiet" onClick=${() => unfold(row.place)}>${row.count} lines are the same</button></td></tr>`
      : layout === 'columns' ? html`<tr><${Half} side=${row.old} op="removed" isSame=${row.op === 'same'} /><${Half} side=${row.new} op="added" isSame=${row.op === 'same'} /></tr>`
        : html`<${Stacked} row=${row} />`))}${more}
  </tbody></table>`;
}

/** A text that only one side has, or that differs as a whole. @param {{text: string, op: 'removed' | 'added'}} props */
export function WholeText({ text, op }) {
  const [shown, more] = useBeginning(text.split('\n'), 2);
  return html`<table class="diff rows"><${Columns} count=${2} /><tbody>
    ${shown.map((line, place) => html`<tr><${Half} side=${{ number: place + 1, parts: [{ op: 'same', text: line }] }} op=${op} isSame=${false} /></tr>`)}${more}
  </tbody></table>`;
}

/**
 * The first rows of a table, and a row that shows more of them: a browser takes long for 100,000 rows.
 * @template T
 * @param {T[]} rows
 * @param {number} columnsCount
 * @returns {[T[], any]}
 */
function useBeginning(rows, columnsCount) {
  const [count, setCount] = useState(ROWS_MAX);
  const left = rows.length - count;
  const more = left > 0 && html`<tr class="folded"><td colspan=${columnsCount}><button class="quiet" onClick=${() => setCount(count + ROWS_MAX)}>
    Show ${Math.min(left, ROWS_MAX)} of ${left} more lines</button></td></tr>`;
  return [rows.slice(0, count), more];
}

/** @param {{count: number}} props */
function Columns({ count }) {
  return html`<colgroup>${Array.from({ length: count }, (_, place) => html`<col class=${place % 2 === 0 ? 'number' : ''} />`)}</colgroup>`;
}

/** @param {{row: {op: 'same' | 'changed', old?: Side, new?: Side}}} props */
function Stacked({ row }) {
  if (row.op === 'same') return html`<tr><${Half} side=${row.new} op="added" isSame=${true} /></tr>`;
  return html`${row.old && html`<tr><${Half} side=${row.old} op="removed" isSame=${false} /></tr>`}${row.new && html`<tr><${Half} side=${row.new} op="added" isSame=${false} /></tr>`}`;
}

/** @param {{side: Side | undefined, op: 'removed' | 'added', isSame: boolean}} props */
function Half({ side, op, isSame }) {
  if (!side) return html`<td class="number"></td><td class="nothing"></td>`;
  const content = side.parts.map((part) => (part.op === 'same' ? part.text : html`<mark>${part.text}</mark>`));
  if (isSame) return html`<td class="number">${side.number}</td><td class="line">${content}</td>`;
  return html`<td class="number">${side.number}</td><td class="line ${op}">${op === 'removed' ? html`<del>${content}</del>` : html`<ins>${content}</ins>`}</td>`;
}

/**
 * @param {LineChange[]} lines
 * @param {string[]} old  The lines of the older text.
 * @param {readonly number[]} unfolded  Places in `lines` that are shown whole.
 * @returns {Row[]}
 */
function rowsOf(lines, old, unfolded) {
  /** @type {Row[]} */
  const rows = [];
  for (let place = 0; place < lines.length;) {
    const line = /** @type {LineChange} */ (lines[place]);
    if (line.op === 'same') {
      const same = sameRows(line, old, { isFirst: place === 0, isLast: place === lines.length - 1, place, isWhole: unfolded.includes(place) });
      for (const row of same) rows.push(row); // more rows than a call may have arguments
      place += 1;
    } else if (line.op === 'changed') {
      rows.push({ op: 'changed', old: sideOf(line, 'removed'), new: sideOf(line, 'added') });
      place += 1;
    } else {
      const removed = runOf(lines, place, 'removed');
      const added = runOf(lines, place + removed.length, 'added');
      for (const row of besideEachOther(removed, added)) rows.push(row);
      place += removed.length + added.length;
    }
  }
  return rows;
}

/**
 * @param {LineChange} line
 * @param {string[]} old
 * @param {{isFirst: boolean, isLast: boolean, place: number, isWhole: boolean}} where
 * @returns {Row[]}
 */
function sameRows({ from = 1, to = 1, count = 0 }, old, { isFirst, isLast, place, isWhole }) {
  const row = (/** @type {number} */ offset) => {
    /** @type {Part[]} */
    const parts = [{ op: 'same', text: old[from - 1 + offset] ?? '' }];
    return /** @type {Row} */ ({ op: 'same', old: { number: from + offset, parts }, new: { number: to + offset, parts } });
  };
  const before = isFirst ? 0 : LINES_AROUND;
  const after = isLast ? 0 : LINES_AROUND;
  const all = Array.from({ length: count }, (_, offset) => offset);
  if (isWhole || count <= before + after + 1) return all.map(row);
  return [...all.slice(0, before).map(row), { op: 'folded', count: count - before - after, place }, ...all.slice(count - after).map(row)];
}

/** The lines of one kind that follow each other. @param {LineChange[]} lines  @param {number} start  @param {string} op */
function runOf(lines, start, op) {
  let end = start;
  while (lines[end]?.op === op) end += 1;
  return lines.slice(start, end);
}

/** @param {LineChange[]} removed  @param {LineChange[]} added  @returns {Row[]} */
function besideEachOther(removed, added) {
  return Array.from({ length: Math.max(removed.length, added.length) }, (_, place) => {
    const [old, young] = [removed[place], added[place]];
    return { op: /** @type {const} */ ('changed'), ...(old && { old: sideOf(old, 'removed') }), ...(young && { new: sideOf(young, 'added') }) };
  });
}

/** @param {LineChange} line  @param {'removed' | 'added'} op  @returns {Side} */
function sideOf(line, op) {
  const number = (op === 'removed' ? line.from : line.to) ?? 0;
  const parts = line.words?.filter((part) => part.op === 'same' || part.op === op);
  return { number, parts: parts ?? [{ op: 'same', text: line.text ?? '' }] };
}
