/**
 * The filter of a view: one chip per condition, a text field that completes what is typed, and the JSON of the filter.
 * It shows the API's complaint at the condition that it is about, and below the bar what became of a text that is none.
 */
import { html } from 'htm/preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { href, navigate, param, setParams } from '../../app/address.js';
import {
  conditionText, FIELDS, isText, lastCondition, readFilter, withCondition, writeFilter,
} from '../../app/filter.js';
import { complete } from './completion.js';
import { addressOf } from './open_id.js';
import { FilterProblem, readText } from './read.js';

/** The filter of the current address. */
export function currentFilter() {
  return readFilter(param('filter'));
}

/** @param {import('../../app/filter.js').Filter} filter */
export function setFilter(filter) {
  setParams({ filter: writeFilter(filter) });
}

/** @param {import('../../app/filter.js').Condition[]} conditions */
export function addConditions(conditions) {
  setFilter(conditions.reduce(withCondition, currentFilter()));
}

/** @typedef {import('../../app/filter.js').Condition} Condition */
/** @typedef {{text: string, words?: string, condition?: Condition, hint?: string | null}} Note  `words` can be searched for; `condition` is the one that it is about, `hint` what may have been meant instead. */

/** A note for the filter bar of the list that opens next: what was typed on another page became a search. */
let handed = /** @type {Note | null} */ (null);

function takeHanded() {
  const note = handed;
  handed = null;
  return note;
}

/**
 * Keeps track of what was entered last. Typing on, or leaving the view, cancels it. `begin` cancels the entry before, and
 * returns a function that says whether this one is still wanted.
 */
function useLookUps() {
  const count = useRef(0);
  const forget = () => { count.current += 1; };
  useEffect(() => forget, []);
  const begin = () => {
    forget();
    const own = count.current;
    return () => count.current === own;
  };
  return { forget, begin };
}

/** @param {{error?: Error | null}} props  `error` is the failure of the query with this filter, if any. */
export function FilterBar({ error }) {
  const filter = currentFilter();
  const [isJson, setJson] = useState(false);
  const [note, setNote] = useState(takeHanded);
  const wrong = wrongCondition(error);
  const lookUps = useLookUps();
  /** @param {number} index  @param {Condition[]} replacement */
  const replace = (index, replacement) => {
    const members = isAnd(filter) || replacement.length < 2 ? replacement : [{ conditions: replacement }];
    setFilter({ ...filter, conditions: filter.conditions.toSpliced(index, 1, ...members) });
  };
  /**
   * Read a text: an id is opened, anything else becomes conditions.
   * @param {string} text
   * @param {(conditions: Condition[]) => void} apply
   * @throws {FilterProblem}
   */
  const enter = async (text, apply) => {
    const isWanted = lookUps.begin();
    const { conditions, id, isSearch, hint } = await readText(text);
    if (!isWanted()) return;
    if (id) {
      open(id, text.trim(), setNote, isWanted);
      return;
    }
    setNote(isSearch ? noteOfSearch(conditions[0], hint) : null);
    apply(conditions);
  };
  /** Put what was meant in the place of the search. @param {Note} searched */
  const takeHint = async ({ condition, hint }) => {
    const { conditions } = await readText(hint ?? '');
    setNote(null);
    replace(currentFilter().conditions.findIndex((each) => JSON.stringify(each) === JSON.stringify(condition)), conditions);
  };
  if (isJson) return html`<${JsonEditor} filter=${filter} close=${() => setJson(false)} />`;
  const isGone = note?.condition && !filter.conditions.some((each) => JSON.stringify(each) === JSON.stringify(note.condition));
  return html`<div class="filter">
    <div class="filter-bar" role="search">
      ${!isAnd(filter) && html`<span class="chip operator">${filter.operator}</span>`}
      ${filter.conditions.map((condition, index) => html`<${Chip} key=${JSON.stringify(condition)} condition=${condition}
        problem=${wrong === index && error ? error.message : null} remove=${() => replace(index, [])} editJson=${() => setJson(true)}
        enter=${(/** @type {string} */ text) => enter(text, (conditions) => replace(index, conditions))} />`)}
      <${Input} enter=${(/** @type {string} */ text) => enter(text, addConditions)} typing=${() => { lookUps.forget(); setNote(null); }}
        placeholder=${filter.conditions.length ? 'and …' : 'Filter: status = error and duration > 2s, any words, or an id'} />
      ${filter.conditions.length > 0 && html`<button class="quiet" title="Remove all conditions" onClick=${() => setFilter({ conditions: [] })}>Clear</button>`}
      <button class="quiet" title="Show and edit the filter as JSON" onClick=${() => setJson(true)}>JSON</button>
    </div>
    <p class="filter-note" role="status" aria-live="polite">${note && !isGone && html`${note.text} ${note.words && html`<button
      onClick=${() => { addConditions([searchFor(note.words ?? '')]); setNote(noteOfSearch(searchFor(note.words ?? ''))); }}>Search for it in all texts</button>`}
      ${note.hint && html`<button onClick=${() => takeHint(note)}>Use ${note.hint}</button>`}`}</p>
  </div>`;
}

/**
 * A field on a page without a list: an id opens what has it, anything else a list of traces.
 * @param {{range: Record<string, string | undefined>}} props  The time of the list.
 */
export function FindField({ range }) {
  const [note, setNote] = useState('');
  const lookUps = useLookUps();
  const enter = async (/** @type {string} */ text) => {
    const isWanted = lookUps.begin();
    const { conditions, id, isSearch, hint } = await readText(text);
    if (!isWanted()) return;
    if (id) {
      open(id, text.trim(), (said) => setNote(said.text), isWanted);
      return;
    }
    handed = isSearch ? noteOfSearch(conditions[0], hint) : null;
    navigate(href(['traces'], { filter: writeFilter({ conditions }), ...range }));
  };
  return html`<div class="filter"><div class="filter-bar" role="search"><${Input} enter=${enter} typing=${() => { lookUps.forget(); setNote(''); }} placeholder="Find traces: status = error, any words, or an id" /></div>
    <p class="filter-note" role="status" aria-live="polite">${note}</p></div>`;
}

/** @param {import('../../app/filter.js').Filter} filter */
function isAnd(filter) {
  return (filter.operator ?? 'and') === 'and';
}

/** @param {string} words @returns {Condition} */
function searchFor(words) {
  return { field: 'content', operator: 'contains', value: words };
}

/** @param {Condition | undefined} condition @param {string | null} [hint] @returns {Note} */
function noteOfSearch(condition, hint = null) {
  const text = `“${condition?.value}” is not a condition: this lists the spans whose texts contain these words.`;
  return { text: hint ? `${text} Did you mean ${hint}?` : text, condition, hint };
}

/**
 * Go to what has an id, or say that nothing has it.
 * @param {Condition} id
 * @param {string} typed
 * @param {(note: Note) => void} say
 * @param {() => boolean} isWanted  Whether somebody still waits for it.
 */
async function open(id, typed, say, isWanted) {
  const kind = id.field === 'trace_id' ? 'trace' : 'span';
  say({ text: `Looking for the ${kind} ${id.value} …` });
  try {
    const found = await addressOf(id);
    if (!isWanted()) return;
    if (found) navigate(found);
    else say({ text: `No ${kind} with the id ${id.value} is stored.`, words: typed });
  } catch (error) {
    if (isWanted()) say({ text: error instanceof Error ? error.message : String(error) });
  }
}

/**
 * Return the index of the condition that an error is about, or `null`: then the filter bar does not show the error.
 * @param {Error | null | undefined} error
 */
export function wrongCondition(error) {
  const path = error && 'path' in error ? String(error.path) : '';
  // A list adds conditions: a filter that is no "and" then stands in one, in the first place.
  const match = (isAnd(currentFilter()) ? null : /^filter(?:ing)?\.conditions\[0\]\.conditions\[(\d+)\]/.exec(path)) ?? /^filter(?:ing)?\.conditions\[(\d+)\]/.exec(path);
  return match ? Number(match[1]) : null;
}

/**
 * @param {{condition: any, problem: string | null, remove: () => void, enter: (text: string) => Promise<void>, editJson: () => void}} props
 *   What text cannot say is edited as JSON.
 */
function Chip({ condition, problem, remove, enter, editJson }) {
  const [isEdited, setEdited] = useState(false);
  const text = conditionText(condition);
  if (isEdited) {
    return html`<${Input} initial=${text} enter=${async (/** @type {string} */ changed) => { await enter(changed); setEdited(false); }}
      leave=${() => setEdited(false)} />`;
  }
  return html`<span class="chip ${problem ? 'wrong' : ''}" title=${problem ?? text}>
    <button class="chip-text" onClick=${() => (isText(condition) ? setEdited(true) : editJson())}>${text}</button>
    <button class="chip-remove" aria-label="Remove ${text}" onClick=${remove}>×</button>
    ${problem && html`<span class="chip-problem" role="alert">${problem}</span>`}
  </span>`;
}

/**
 * A text field with completion. Enter reads the text, Tab takes the marked suggestion.
 * @param {{enter: (text: string) => Promise<void>, typing?: () => void, initial?: string, placeholder?: string, leave?: () => void}} props
 *   `enter` throws an error in words if the text is wrong, with its place if that is known.
 */
function Input({ enter, typing, initial = '', placeholder, leave }) {
  const [text, setText] = useState(initial);
  const [problem, setProblem] = useState('');
  const [suggestions, setSuggestions] = useState(/** @type {import('./completion.js').Suggestion[]} */ ([]));
  const [marked, setMarked] = useState(-1);
  const [isFocused, setFocused] = useState(false);
  const [isHidden, setHidden] = useState(false); // after a condition was added, until something is typed
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const isReading = useRef(false); // while the API reads what was entered
  useLayoutEffect(() => { if (initial) input.current?.focus(); }, []); // before the next key
  useEffect(() => {
    if (!isFocused) return undefined;
    const controller = new AbortController();
    const { known, ask } = complete(text);
    setSuggestions(known);
    setMarked(-1);
    ask?.(controller.signal).then((found) => {
      if (!controller.signal.aborted) setSuggestions(found);
    }, () => { /* completion is a help; a failure of it is none of the view's */ });
    return () => controller.abort();
  }, [text, isFocused]);

  const submit = async () => {
    if (text.trim() === '' || isReading.current) return;
    isReading.current = true;
    try {
      await enter(text);
      setText((/** @type {string} */ typed) => (typed === text ? '' : typed)); // what was typed meanwhile stays
      setProblem('');
      setHidden(true);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      if (error instanceof FilterProblem) input.current?.setSelectionRange(error.begin, error.end);
    } finally {
      isReading.current = false;
    }
  };
  /** @param {import('./completion.js').Suggestion} suggestion */
  const take = (suggestion) => {
    setText(suggestion.text);
    input.current?.focus();
  };
  const isOpen = isFocused && !isHidden && suggestions.length > 0;
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const [first, chosen] = [suggestions[0], suggestions[marked]];
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      setMarked(Math.min(suggestions.length - 1, Math.max(-1, marked + step)));
    } else if (event.key === 'Tab' && first && text) {
      event.preventDefault();
      take(chosen ?? first);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const completed = chosen ?? (isOpen && isPartOfName(text) ? first : undefined);
      if (completed) take(completed);
      else submit();
    } else if (event.key === 'Escape') {
      input.current?.blur();
      leave?.();
    }
  };
  return html`<div class="filter-input">
    <input ref=${input} value=${text} placeholder=${placeholder} aria-label="Add a condition" role="combobox" spellcheck="false"
      autocomplete="off" aria-expanded=${isOpen} aria-autocomplete="list" aria-controls="suggestions" data-focus="filter"
      onInput=${(/** @type {any} */ event) => { setText(event.target.value); setProblem(''); setHidden(false); typing?.(); }}
      onFocus=${() => { setFocused(true); setHidden(false); }} onBlur=${() => { setFocused(false); leave?.(); }} onKeyDown=${onKeyDown} />
    ${problem && html`<span class="chip-problem" role="alert">${problem}</span>`}
    ${isOpen && html`<div class="panel suggestions" id="suggestions" role="listbox">
      ${suggestions.map((suggestion, index) => html`<button key=${suggestion.text} role="option" aria-selected=${index === marked}
        class="item ${index === marked ? 'marked' : ''}"
        onPointerDown=${(/** @type {Event} */ event) => { event.preventDefault(); take(suggestion); }}>
        <span>${suggestion.label}</span><span class="soft">${suggestion.note}</span></button>`)}
    </div>`}
  </div>`;
}

/** Whether the text ends with the beginning of the name of a field. @param {string} typed */
function isPartOfName(typed) {
  const [, text] = lastCondition(typed);
  return /^[a-z_.]+$/.test(text) && !FIELDS.includes(text) && FIELDS.some((field) => field.startsWith(text));
}

/** @param {{filter: import('../../app/filter.js').Filter, close: () => void}} props */
function JsonEditor({ filter, close }) {
  const [text, setText] = useState(JSON.stringify(filter, null, 2));
  const [problem, setProblem] = useState('');
  const apply = () => {
    try {
      const read = JSON.parse(text || '{"conditions": []}');
      if (!Array.isArray(read.conditions)) throw new Error('A filter is an object with "conditions": a list.');
      setFilter(read);
      close();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return html`<div class="filter-bar json">
    <textarea aria-label="The filter as JSON" rows="8" spellcheck="false" value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
    ${problem && html`<p class="chip-problem" role="alert">${problem}</p>`}
    <div class="actions"><button class="primary" onClick=${apply}>Apply</button><button onClick=${close}>Cancel</button></div>
  </div>`;
}
