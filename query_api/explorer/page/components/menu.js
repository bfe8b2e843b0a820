/** A button that opens a small panel below it. Escape and a click elsewhere close it. */
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/**
 * @param {{label: any, title?: string, align?: 'left' | 'right', class?: string,
 *   children: any | ((close: () => void) => any)}} props
 */
export function Menu({ label, title, align = 'left', class: className = '', children }) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    if (!isOpen) return undefined;
    /** @param {Event} event */
    const closeOutside = (event) => { if (!root.current?.contains(/** @type {Node} */ (event.target))) setOpen(false); };
    /** @param {KeyboardEvent} event */
    const closeByKey = (event) => {
      if (event.key !== 'Escape') return;
      setOpen(false);
      root.current?.querySelector('button')?.focus();
    };
    addEventListener('pointerdown', closeOutside);
    addEventListener('keydown', closeByKey);
    return () => {
      removeEventListener('pointerdown', closeOutside);
      removeEventListener('keydown', closeByKey);
    };
  }, [isOpen]);
  const close = () => setOpen(false);
  return html`<div class="menu ${className}" ref=${root}>
    <button aria-expanded=${isOpen} title=${title} onClick=${() => setOpen(!isOpen)}>${label}</button>
    ${isOpen && html`<div class="panel ${align}">${typeof children === 'function' ? children(close) : children}</div>`}
  </div>`;
}
