/**
 * The tree of a trace, in columns: entry `i` of each array is one span, in order of start. A trace may have 100,000 spans,
 * so there is no object per span.
 */

/**
 * @typedef {object} Outline
 * @property {string} traceId
 * @property {string} startTime  RFC 3339, of the earliest span.
 * @property {number} count
 * @property {string[]} spanId
 * @property {(name: 'span_name' | 'span_type' | 'service' | 'model' | 'status_code', index: number) => string} text
 * @property {number[]} start  Milliseconds after `startTime`.
 * @property {number[]} duration  Milliseconds; of a running span those until `nowMs`.
 * @property {Uint8Array} isRunning  1 where the end is not stored.
 * @property {boolean} hasRunning
 * @property {(number | null)[]} tokens
 * @property {(number | null)[]} cost
 * @property {number} end  The latest end, in milliseconds after `startTime`.
 * @property {Int32Array} parent  The index of the parent, or -1.
 * @property {number[][]} children  Indices in order of start.
 * @property {number[]} roots  Spans at the top level, in order of start.
 * @property {Set<number>} messages  Spans that only pass on a message.
 * @property {(index: number) => boolean} isError
 * @property {Uint8Array} isOrphan  1 where a parent is named that the trace does not have.
 * @property {Uint8Array} isCritical  1 on the critical path.
 * @property {Uint32Array} size  The number of spans below.
 * @property {Uint32Array} errorsBelow
 * @property {Map<string, number>} indexOf  By span id.
 */

const NS_PER_MS = 1e6;

/**
 * @param {any} answer  The member `outline` of `GET /traces/{trace_id}/outline`.
 * @param {number} nowMs  Milliseconds since 1970: the bars of running spans end here.
 * @returns {Outline}
 */
export function readOutline(answer, nowMs) {
  const { spans } = answer;
  const count = spans.span_id.length;
  const indexOf = new Map(spans.span_id.map((/** @type {string} */ id, /** @type {number} */ index) => [id, index]));
  const start = spans.start_ns.map((/** @type {number} */ ns) => ns / NS_PER_MS);
  const now = nowMs - new Date(answer.start_time).getTime();
  const isRunning = Uint8Array.from(spans.duration_ns, (/** @type {number | null} */ ns) => (ns === null ? 1 : 0));
  const duration = spans.duration_ns.map((/** @type {number | null} */ ns, /** @type {number} */ index) => (
    ns === null ? Math.max(0, now - start[index]) : ns / NS_PER_MS));
  let end = 0;
  for (let index = 0; index < count; index += 1) end = Math.max(end, start[index] + duration[index]);
  /** @param {string} name @param {number} index */
  const text = (name, index) => spans[name].values[spans[name].index[index]] ?? '';
  /** @param {number} index */
  const isError = (index) => text('status_code', index) === 'STATUS_CODE_ERROR';
  const { parent, isOrphan } = parentsOf(count, spans.parent_id, indexOf);
  const outline = {
    traceId: answer.trace_id, startTime: answer.start_time, count, spanId: spans.span_id, text, start, duration, end, indexOf,
    isRunning, hasRunning: isRunning.includes(1),
    tokens: spans.tokens, cost: spans.cost, messages: new Set(answer.message_spans), isError, isOrphan,
    isCritical: new Uint8Array(count), ...treeOf(parent, () => false, isError),
  };
  markCriticalPath(outline);
  return outline;
}

/**
 * Spans whose parent is absent, and the earliest span of a cycle, stand at the top level.
 * @param {number} count
 * @param {(string | null)[]} parentIds
 * @param {Map<string, number>} indexOf
 */
function parentsOf(count, parentIds, indexOf) {
  const parent = new Int32Array(count).fill(-1);
  const isOrphan = new Uint8Array(count);
  for (let index = 0; index < count; index += 1) {
    const id = parentIds[index];
    if (!id) continue;
    const found = indexOf.get(id);
    if (found === undefined) isOrphan[index] = 1;
    else if (found !== index) parent[index] = found;
  }
  cutCycles(parent);
  return { parent, isOrphan };
}

/**
 * The members of an outline that follow from the parents of its spans.
 * @param {Int32Array} parent  Without cycles; no parent is hidden.
 * @param {(index: number) => boolean} isHidden  Spans that the tree leaves out.
 * @param {(index: number) => boolean} isError
 */
export function treeOf(parent, isHidden, isError) {
  /** @type {number[][]} */
  const children = Array.from({ length: parent.length }, () => []);
  /** @type {number[]} */
  const roots = [];
  for (let index = 0; index < parent.length; index += 1) {
    if (!isHidden(index)) (parent[index] === -1 ? roots : children[/** @type {number} */ (parent[index])])?.push(index);
  }
  const tree = { parent, children, roots };
  return { ...tree, ...sums(tree, isError) };
}

/** @param {Int32Array} parent */
function cutCycles(parent) {
  const seen = new Int32Array(parent.length); // the number of the walk that came by, from 1
  for (let index = 0; index < parent.length; index += 1) {
    const path = [];
    let at = index;
    while (at !== -1 && seen[at] === 0) {
      seen[at] = index + 1;
      path.push(at);
      at = /** @type {number} */ (parent[at]);
    }
    if (at !== -1 && seen[at] === index + 1) {
      const cycle = path.slice(path.indexOf(at));
      parent[Math.min(...cycle)] = -1;
    }
  }
}

/**
 * @param {{parent: Int32Array, roots: number[], children: number[][]}} tree
 * @param {(index: number) => boolean} isError
 */
function sums({ parent, roots, children }, isError) {
  const size = new Uint32Array(parent.length);
  const errorsBelow = new Uint32Array(parent.length);
  const order = walk(roots, children);
  for (let place = order.length - 1; place >= 0; place -= 1) {
    const index = /** @type {number} */ (order[place]);
    const above = /** @type {number} */ (parent[index]);
    if (above === -1) continue;
    size[above] = (size[above] ?? 0) + (size[index] ?? 0) + 1;
    errorsBelow[above] = (errorsBelow[above] ?? 0) + (errorsBelow[index] ?? 0) + (isError(index) ? 1 : 0);
  }
  return { size, errorsBelow };
}

/**
 * All indices, parents before children, siblings in order.
 * @param {number[]} roots
 * @param {number[][]} children
 * @param {(index: number) => boolean} [isClosed]
 */
export function walk(roots, children, isClosed) {
  const order = [];
  const stack = roots.toReversed();
  while (stack.length) {
    const index = /** @type {number} */ (stack.pop());
    order.push(index);
    const below = isClosed?.(index) ? [] : children[index] ?? [];
    for (let place = below.length - 1; place >= 0; place -= 1) stack.push(/** @type {number} */ (below[place]));
  }
  return order;
}

/**
 * The critical path: from the end of the longest root back to its start, always the span that ended last before. Making
 * any other span faster would not end the trace earlier. Of a span that ends after its parent, the part inside counts.
 * @param {Outline} outline
 */
function markCriticalPath(outline) {
  const { start, duration, children, roots, isCritical } = outline;
  const endOf = (/** @type {number} */ index) => (start[index] ?? 0) + (duration[index] ?? 0);
  const longest = roots.reduce((most, root) => ((duration[root] ?? 0) > (duration[most] ?? -1) ? root : most), roots[0] ?? -1);
  const stack = longest === -1 ? [] : [{ index: longest, until: endOf(longest) }];
  while (stack.length) {
    const { index, until } = /** @type {{index: number, until: number}} */ (stack.pop());
    isCritical[index] = 1;
    const end = Math.min(until, endOf(index));
    let limit = end;
    for (const child of (children[index] ?? []).toSorted((a, b) => endOf(b) - endOf(a))) {
      if ((start[child] ?? 0) >= limit) continue;
      if (Math.min(endOf(child), end) > limit) continue; // it ended after the next span on the path had begun
      stack.push({ index: child, until: limit });
      limit = start[child] ?? 0;
    }
  }
}

/**
 * The spans above one, outermost first.
 * @param {Outline} outline
 * @param {number} index
 */
export function ancestors(outline, index) {
  const above = [];
  for (let at = outline.parent[index] ?? -1; at !== -1; at = outline.parent[at] ?? -1) above.unshift(at);
  return above;
}
