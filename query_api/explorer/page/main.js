/** The explorer: chooses the view that the address names. */
import { render } from 'preact';
import { html } from 'htm/preact';
import { effect } from '@preact/signals';
import { address, href, listenToAddress, viewName } from './app/address.js';
import { title } from './app/title.js';
import { Boundary } from './components/boundary.js';
import { lazy } from './components/lazy.js';
import { Shell } from './components/shell.js';
import { SpansView, TracesView } from './views/list/list.js';
import { OverviewView } from './views/overview/overview.js';
import { TraceView } from './views/trace/trace.js';

/** Views that are no list and no trace; each is loaded when it is opened. */
const ApplicationsView = lazy(async () => (await import('./views/applications/applications.js')).ApplicationsView);
const ChartsView = lazy(async () => (await import('./views/charts/charts.js')).ChartsView);
const DeadLettersView = lazy(async () => (await import('./views/dead_letters/dead_letters.js')).DeadLettersView);
const QueriesView = lazy(async () => (await import('./views/queries/queries.js')).QueriesView);
const SessionsView = lazy(async () => (await import('./views/sessions/sessions.js')).SessionsView);
const StatusView = lazy(async () => (await import('./views/status/status.js')).StatusView);
const UsersView = lazy(async () => (await import('./views/users/users.js')).UsersView);

function View() {
  const { path } = address.value;
  switch (viewName.value) {
    case 'overview': return html`<${OverviewView} />`;
    case 'traces': return path[1] ? html`<${TraceView} key=${path[1]} traceId=${path[1]} />` : html`<${TracesView} />`;
    case 'spans': return html`<${SpansView} />`;
    case 'sessions': return html`<${SessionsView} key=${path[1] ?? ''} sessionId=${path[1]} />`;
    case 'users': return html`<${UsersView} key=${path[1] ?? ''} userId=${path[1]} />`;
    case 'charts': return html`<${ChartsView} />`;
    case 'applications': return html`<${ApplicationsView} path=${path.slice(1)} />`;
    case 'queries': return html`<${QueriesView} path=${path.slice(1)} />`;
    case 'dead-letters': return html`<${DeadLettersView} id=${path[1]} />`;
    case 'status': return html`<${StatusView} />`;
    default: return html`<div class="notice empty"><h2>There is no such page</h2><p><a href=${href(['traces'])}>Show the traces</a></p></div>`;
  }
}

/** One view that fails leaves the others. */
function Page() {
  return html`<${Boundary} key=${address.value.path.join('/')}><${View} /></${Boundary}>`;
}

listenToAddress();
effect(() => { document.title = title.value; });
const root = /** @type {HTMLElement} */ (document.getElementById('app'));
root.replaceChildren();
render(html`<${Shell}><${Page} /></${Shell}>`, root);
