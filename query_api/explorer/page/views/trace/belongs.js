/** What a trace belongs to: its session, its user, and the revision of the application that produced it. */
import { html } from 'htm/preact';
import { post } from '../../app/api.js';
import { useLoaded } from '../../app/loading.js';
import { objectsOf } from '../../app/spans.js';
import { SessionLink } from '../../components/session_link.js';
import { UserLink } from '../../components/user_link.js';
import { RevisionLink, useRevision } from './links.js';

const KEYS = ['application', 'application_variant', 'application_revision'];

/** @param {{traceId: string, summary: any}} props */
export function Belongs({ traceId, summary }) {
  return html`${summary.session_id && html`<div><dt>Session</dt><dd><${SessionLink} id=${summary.session_id} /></dd></div>`}
    ${summary.user_id && html`<div><dt>User</dt><dd><${UserLink} id=${summary.user_id} /></dd></div>`}
    <${RevisionFact} traceId=${traceId} />`;
}

/** @param {{traceId: string}} props */
function RevisionFact({ traceId }) {
  const loaded = useLoaded(async (abort) => {
    const value = KEYS.map((key) => ({ attributes: { key } }));
    const conditions = [{ field: 'trace_id', operator: 'is', value: traceId }, { field: 'references', operator: 'in', value }];
    return (await post('spans/query', { filtering: { conditions }, windowing: { limit: 1, order: 'ascending' } }, abort)).spans[0] ?? null;
  }, [traceId]);
  const revision = useRevision('application', objectsOf(loaded.data?.references));
  if (!revision.data || revision.isOld) return null;
  return html`<div><dt>Revision</dt><dd><${RevisionLink} kind="application" revision=${revision.data} /></dd></div>`;
}
