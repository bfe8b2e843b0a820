/** The state of the stack: how far each partition is stored, open dead letters, versions. Needs the administrator's key. */
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import { href } from '../../app/address.js';
import { get } from '../../app/api.js';
import { ago, number } from '../../app/format.js';
import { useLoaded } from '../../app/loading.js';
import { ErrorNotice } from '../../components/notices.js';
import { Time } from '../../components/time.js';

const REFRESH_MS = 5_000;

export function StatusView() {
  const loaded = useLoaded((abort) => get('admin/status', {}, abort), []);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) loaded.reload(); }, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const status = loaded.data;
  return html`<div class="page"><div class="page-head"><h1>Status</h1>${loaded.isLoading && html`<span class="soft">…</span>`}</div>
    ${loaded.error && html`<${ErrorNotice} error=${loaded.error} retry=${loaded.reload} />`}
    ${status && html`
      <div class="tiles">
        <${Tile} title="Data through" value=${status.data_through ? ago(status.data_through) : 'unknown'} note=${status.data_through ? html`<${Time} value=${status.data_through} />` : status.reason} />
        <${Tile} title="Records not stored yet" value=${number(status.behind_records) || 'unknown'} />
        <${Tile} title="Open dead letters" note=${status.dead_letters.reason}
          value=${html`<a href=${href(['dead-letters'])}>${status.dead_letters.open == null ? 'unknown' : number(status.dead_letters.open)}</a>`} />
        <${Tile} title="Prices of models" value=${status.prices.as_of ?? 'unknown'} note=${status.prices.warning ?? status.prices.reason} />
        <${Tile} title="Version" value=${status.versions.clearspan} note="ClickHouse ${status.versions.clickhouse ?? '?'}, Postgres ${status.versions.postgres ?? '?'}" />
      </div>
      <section class="card"><h2>Partitions</h2><table class="plain"><thead><tr><th>Topic</th><th class="numeric">Partition</th><th class="numeric wide">Last offset produced</th>
        <th class="numeric wide">Last offset stored</th><th class="numeric">Behind</th><th>Last stored</th></tr></thead><tbody>
        ${status.partitions.map((/** @type {any} */ partition) => html`<tr key=${`${partition.topic}/${partition.partition}`}>
          <td>${partition.topic}</td><td class="numeric">${partition.partition}</td><td class="numeric wide">${number(partition.produced_offset)}</td>
          <td class="numeric wide">${number(partition.stored_offset)}</td><td class="numeric ${partition.behind_records ? 'error-text' : ''}">${number(partition.behind_records)}</td>
          <td>${partition.last_stored ? html`<${Time} value=${partition.last_stored.stored_at} />` : html`<span class="soft">nothing yet</span>`}</td></tr>`)}
      </tbody></table></section>`}
  </div>`;
}

/** @param {{title: string, value: any, note?: any}} props */
function Tile({ title, value, note }) {
  return html`<section class="card tile"><h2>${title}</h2><p class="value">${value}</p>${note && html`<p class="soft">${note}</p>`}</section>`;
}
