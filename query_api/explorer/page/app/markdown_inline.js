/**
 * The inside of a line of Markdown: emphasis, code, links and bare addresses. It takes linear time for any text: every
 * opener is tried once, and nesting is bounded. Markup that is not complete stays text; HTML is text, but
 * `<br>`, which models write into tables, is the end of a line.
 */

/**
 * @typedef {string | {kind: 'code', text: string} | {kind: 'em' | 'strong' | 'del', children: Inline[]}
 *   | {kind: 'link', href: string, children: Inline[]}} Inline
 */
/** @typedef {{left: number}} Budget  How many elements may still be made. */
/**
 * @typedef {{text: string, code?: boolean, mark?: string, href?: string, pair?: number}} Token
 *   `pair` is the token with which an opener or a closer makes an element.
 */

const DEPTH_MAX = 8;
const CODE_MARK_MAX = 8;
const HREF_MAX = 2_000;
const SPECIAL = /\\[!-/:-@[-`{-~]|`+|\*+|_+|~+|!?\[|\]|https?:\/\/|<br ?\/?>/gi;
const BARE_ADDRESS = /[^\s<>"`|]+/y;
const KINDS = /** @type {const} */ ({ '*': 'em', _: 'em', '**': 'strong', __: 'strong', '~~': 'del' });

/** @param {string} text  @param {Budget} budget  @returns {Inline[]} */
export function readInline(text, budget) {
  return tree(tokensOf(text), budget);
}

/**
 * An address that a link may lead to, written as the browser understands it; else `undefined`. A name and a password
 * in it could make it look like another one.
 * @param {string} text
 */
export function safeAddress(text) {
  if (!/^(https?:\/\/|mailto:)/i.test(text) || text.length > HREF_MAX) return undefined;
  try {
    const { href, username, password } = new URL(text);
    return username || password ? undefined : href;
  } catch {
    return undefined;
  }
}

/** @param {string} text */
function tokensOf(text) {
  const reader = new Reader(text);
  reader.read();
  return reader.tokens;
}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    /** @type {Token[]} */
    this.tokens = [];
    /** @type {number[]} Tokens that may still be closed, and how many of each mark are among them. */
    this.openers = [];
    /** @type {Map<string, number>} */
    this.openCounts = new Map();
    /** @type {number[]} */
    this.brackets = [];
    /** @type {Map<number, number[]> | undefined} */
    this.codeMarks = undefined;
  }

  read() {
    const special = new RegExp(SPECIAL);
    let from = 0;
    for (let match = special.exec(this.text); match; match = special.exec(this.text)) {
      this.add(this.text.slice(from, match.index));
      from = this.readSpecial(match[0], match.index);
      special.lastIndex = from;
    }
    this.add(this.text.slice(from));
  }

  /** @param {string} text */
  add(text) {
    if (text) this.tokens.push({ text });
  }

  /** Read what begins at `index`; return where it ends. @param {string} mark @param {number} index */
  readSpecial(mark, index) {
    const end = index + mark.length;
    if (mark[0] === '\\') this.add(mark.slice(1));
    else if (mark[0] === '`') return this.readCode(mark, index);
    else if (mark.endsWith('[')) this.openBracket(mark);
    else if (mark === ']') return this.closeBracket(end);
    else if (mark[0] === '<') this.add('\n');
    else if (/^h/i.test(mark)) return this.readAddress(index);
    else this.readEmphasis(mark, index);
    return end;
  }

  /** @param {string} mark @param {number} index */
  readCode(mark, index) {
    const start = index + mark.length;
    const ends = this.endsOfCode().get(mark.length);
    while (ends?.length && /** @type {number} */ (ends.at(-1)) < start) ends.pop();
    const end = ends?.at(-1);
    if (end === undefined) {
      this.add(mark);
      return start;
    }
    const inner = this.text.slice(start, end).replaceAll('\n', ' ');
    this.tokens.push({ text: inner.trim() && /^ .* $/.test(inner) ? inner.slice(1, -1) : inner, code: true });
    return end + mark.length;
  }

  /** The places of runs of backticks by their length, the last first. */
  endsOfCode() {
    if (this.codeMarks) return this.codeMarks;
    this.codeMarks = new Map();
    for (const { 0: run, index } of [...this.text.matchAll(/`+/g)].reverse()) {
      if (run.length > CODE_MARK_MAX) continue;
      const places = this.codeMarks.get(run.length);
      if (places) places.push(index);
      else this.codeMarks.set(run.length, [index]);
    }
    return this.codeMarks;
  }

  /** @param {number} index */
  readAddress(index) {
    BARE_ADDRESS.lastIndex = index;
    const [run = ''] = BARE_ADDRESS.exec(this.text) ?? [];
    const address = withoutEnd(run);
    const href = /\w/.test(this.text[index - 1] ?? '') ? undefined : safeAddress(address);
    if (href === undefined) this.add(address);
    else this.addLink(href, address);
    return index + address.length;
  }

  /** @param {string} href @param {string} text */
  addLink(href, text) {
    const opener = this.tokens.length;
    this.tokens.push({ text: '', href, pair: opener + 2 }, { text }, { text: '', href, pair: opener });
  }

  /** @param {string} mark */
  openBracket(mark) {
    this.brackets.push(this.tokens.length);
    this.tokens.push({ text: mark });
  }

  /** @param {number} end  The index after the bracket. */
  closeBracket(end) {
    const opener = this.brackets.pop();
    const target = opener === undefined ? undefined : readTarget(this.text, end);
    if (opener === undefined || target === undefined) {
      this.add(']');
      return end;
    }
    const first = /** @type {Token} */ (this.tokens[opener]);
    const isImage = first.text === '![';
    const href = safeAddress(target.address);
    this.brackets = []; // a link has no link in it
    this.forgetOpeners(opener);
    if (href === undefined) {
      first.text = isImage ? '[image: ' : '[';
      this.add(`](${target.address})`);
      return target.end;
    }
    Object.assign(first, { text: isImage ? 'image: ' : '', href, pair: this.tokens.length });
    this.tokens.push({ text: '', href, pair: opener });
    return target.end;
  }

  /** @param {string} run @param {number} index */
  readEmphasis(run, index) {
    const [before, after] = [this.text[index - 1] ?? ' ', this.text[index + run.length] ?? ' '];
    const isLeft = isLetter(after) || (isMark(after) && !isLetter(before));
    const isRight = isLetter(before) || (isMark(before) && !isLetter(after));
    const isWord = run[0] === '_';
    const canOpen = isLeft && (!isWord || !isRight || isMark(before));
    const canClose = isRight && (!isWord || !isLeft || isMark(after));
    for (const mark of this.marksOf(run, canClose)) {
      if (!(mark in KINDS) || !(canClose && this.close(mark))) {
        if (mark in KINDS && canOpen) this.open(mark);
        this.tokens.push({ text: mark, mark });
      }
    }
  }

  /** Three are two marks: the one that was opened last is closed first. @param {string} run @param {boolean} canClose */
  marksOf(run, canClose) {
    const [sign = ''] = run;
    if (run.length !== 3) return [run];
    const last = this.tokens[this.openers.at(-1) ?? -1]?.mark;
    return canClose && last === sign ? [sign, sign + sign] : [sign + sign, sign];
  }

  /** @param {string} mark */
  open(mark) {
    this.openers.push(this.tokens.length);
    this.openCounts.set(mark, (this.openCounts.get(mark) ?? 0) + 1);
  }

  /** Close the opener of a mark; those that were opened since stay text. @param {string} mark */
  close(mark) {
    if (!this.openCounts.get(mark)) return false;
    let opener = this.popOpener();
    while (this.tokens[opener]?.mark !== mark) opener = this.popOpener();
    while (this.brackets.length && (this.brackets.at(-1) ?? 0) > opener) this.brackets.pop();
    const first = /** @type {Token} */ (this.tokens[opener]);
    first.pair = this.tokens.length;
    this.tokens.push({ text: mark, mark, pair: opener });
    return true;
  }

  popOpener() {
    const opener = /** @type {number} */ (this.openers.pop());
    const mark = this.tokens[opener]?.mark ?? '';
    this.openCounts.set(mark, (this.openCounts.get(mark) ?? 1) - 1);
    return opener;
  }

  /** @param {number} from */
  forgetOpeners(from) {
    while (this.openers.length && (this.openers.at(-1) ?? 0) > from) this.popOpener();
  }
}

/**
 * The target of a link, in brackets after its text. The scan ends at the second bracket that opens, so texts of many
 * brackets are read at most twice.
 * @param {string} text
 * @param {number} index
 * @returns {{address: string, end: number} | undefined}
 */
function readTarget(text, index) {
  if (text[index] !== '(') return undefined;
  let depth = 0;
  let end = index + 1;
  for (; end < text.length && end - index <= HREF_MAX; end += 1) {
    const sign = text[end] ?? '';
    if (/\s/.test(sign)) break;
    if (sign === '(' && depth++ === 1) return undefined;
    if (sign === ')' && depth-- === 0) break;
  }
  const address = text.slice(index + 1, end).replace(/^<(.*)>$/, '$1');
  if (text[end] === ')') return { address, end: end + 1 };
  const title = /\s+(?:"[^"\n]{0,200}"|'[^'\n]{0,200}')?\s?\)/y;
  title.lastIndex = end;
  return title.test(text) ? { address, end: title.lastIndex } : undefined;
}

/** Signs at the end belong to the sentence. A bracket does unless the address opens one. @param {string} address */
function withoutEnd(address) {
  let end = address.length;
  const opens = address.includes('(');
  while (end > 0 && (/[.,;:!?'*_~\]}]/.test(address[end - 1] ?? '') || (address[end - 1] === ')' && !opens))) end -= 1;
  return address.slice(0, end);
}

/** @param {string} sign */
function isLetter(sign) {
  return !/[\s!-/:-@[-`{-~]/.test(sign);
}

/** @param {string} sign */
function isMark(sign) {
  return /[!-/:-@[-`{-~]/.test(sign);
}

/** @param {Token[]} tokens @param {Budget} budget */
function tree(tokens, budget) {
  /** @type {Inline[]} */
  const top = [];
  const open = [{ children: top, end: -1 }];
  tokens.forEach((token, index) => {
    const inner = /** @type {{children: Inline[], end: number}} */ (open.at(-1));
    const isOpener = token.pair !== undefined && token.pair > index;
    if (index === inner.end) {
      open.pop();
    } else if (isOpener && open.length <= DEPTH_MAX && budget.left > 0) {
      budget.left -= 1;
      /** @type {Inline[]} */
      const children = [];
      if (token.href === undefined) inner.children.push({ kind: KINDS[/** @type {keyof typeof KINDS} */ (token.mark)], children });
      else inner.children.push({ kind: 'link', href: token.href, children });
      open.push({ children, end: /** @type {number} */ (token.pair) });
      if (token.href !== undefined) addText(children, token.text);
    } else if (token.code && budget.left > 0) {
      budget.left -= 1;
      inner.children.push({ kind: 'code', text: token.text });
    } else {
      addText(inner.children, token.text);
    }
  });
  return top;
}

/** @param {Inline[]} children @param {string} text */
function addText(children, text) {
  const last = children.length - 1;
  if (typeof children[last] === 'string') children[last] += text;
  else if (text) children.push(text);
}
