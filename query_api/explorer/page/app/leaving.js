/** Asks before unsaved changes are lost. */
import { useEffect } from 'preact/hooks';
import { leaving } from './address.js';

const QUESTION = 'Leave this page? What you changed is not committed.';

/** While `isUnsaved`, leaving the view asks first, also when the browser tab is closed. @param {boolean} isUnsaved */
export function useQuestionBeforeLeaving(isUnsaved) {
  useEffect(() => {
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
