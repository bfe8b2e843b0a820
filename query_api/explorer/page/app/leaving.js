/** Asks before unsaved changes are lost. */
import { useLayoutEffect } from 'preact/hooks';
import { leaving } from './address.js';

const QUESTION = 'Leave this page? What you changed is not committed.';

/** While `isUnsaved`, leaving the view asks first, also when the browser tab is closed. @param {boolean} isUnsaved */
export function useQuestionBeforeLeaving(isUnsaved) {
  useLayoutEffect(() => { // before the next event: a person may leave right after a key
    if (!isUnsaved) return undefined;
    const onUnload = (/** @type {BeforeUnloadEvent} */ event) => { if (!leaving.isAgreed) event.preventDefault(); };
    leaving.mayLeave = () => confirm(QUESTION);
    addEventListener('beforeunload', onUnload);
    return () => {
      leaving.mayLeave = () => true;
      removeEventListener('beforeunload', onUnload);
    };
  }, [isUnsaved]);
}
