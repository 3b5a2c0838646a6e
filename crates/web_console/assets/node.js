// The view of the node: what it is, what its memory holds, which requests it serves and how fast, how far it verified.

import { get, metricsText } from './api.js';
import { h, show } from './dom.js';
import { bytes, grouped, rate, seconds } from './format.js';
import { histograms, parseMetrics, quantile, since, sums, value } from './metrics.js';
import { card, errorNotice, facts, notice, row, source, table, wholeKey } from './parts.js';
import { verification } from './verification.js';

const POLL_MS = 2_000;
const METHODS = [
  { title: 'Method', class: 'grow' }, { title: 'Per second', class: 'num' }, { title: 'p50', class: 'num' },
  { title: 'p99', class: 'num' }, { title: 'Errors', class: 'num wide' }, { title: 'Total', class: 'num' },
];
const PARTS = [{ title: 'Part', class: 'grow' }, { title: '', class: 'meter wide' }, { title: 'Memory', class: 'num' }];
const MEANINGS = {
  addresses: 'addresses and their numbers', indices: 'accounts by program, owner, mint and delegate',
  packed: 'accounts in final blocks', unpacked_records: 'accounts in newer blocks', ranks: 'the richest accounts and largest holders',
  history: 'blocks, transactions and signatures', response_cache: 'responses that are still true',
  resume: 'blocks for clients that resume', tracked_sets: 'subscribed addresses', websocket_queues: 'notifications that wait',
  websocket_messages: 'messages that are not complete', connections: 'open connections', status_waiters: 'clients that wait for a transaction',
  slot_waits: 'requests that wait for a slot',
  quic_connections: 'connections over QUIC', request_bodies: 'bodies that are not complete', unsent_responses: 'responses that wait for their clients',
  transaction_queue: 'transactions that wait', executable: 'the program itself', start: 'compiled programs, queues, threads',
  grpc_connections: 'connections over gRPC', grpc_events: 'events that wait for gRPC', grpc_queues: 'messages that wait', grpc_sending: 'messages on their way',
  grpc_filters: 'filters of clients', grpc_replay: 'slots for clients that resume',
};

export function node(container, context) {
  const { signal, onClose } = context;
  const [identity, load, memory, requests] = [h('div'), h('div'), h('div'), h('div')];
  container.append(
    h('h1', {}, 'The node'),
    card(null, identity, source('/v1/node')),
    h('div', { class: 'columns even' }, card('Load', load), verification(context)),
    card('Requests', requests),
    card('Memory', memory, metricsSource()),
  );
  get('/v1/node', { signal }).then(({ value: it }) => show(identity, nodeFacts(it))).catch((err) => !signal.aborted && show(identity, errorNotice(err)));

  let before = null;
  async function poll() {
    if (document.hidden) return;
    try {
      const now = { at: performance.now(), families: parseMetrics(await metricsText({ signal })) };
      show(load, loadFacts(now, before));
      show(memory, memoryTable(now.families));
      show(requests, requestTable(now, before));
      before = now;
    } catch (err) {
      if (!signal.aborted) show(load, errorNotice(err));
    }
  }
  poll();
  const timer = setInterval(poll, POLL_MS);
  onClose(() => clearInterval(timer));
}

// `/metrics` is text, so it is shown as the request, not as a link.
const metricsSource = () => h('p', { class: 'source' }, h('code', {}, 'GET /metrics'));

function nodeFacts({ version, identity, genesisHash, clusterNodes }) {
  const own = clusterNodes.find((it) => it.pubkey === identity.identity) ?? clusterNodes[0];
  return facts([
    ['API', `Agave ${version['solana-core']}, feature set ${version['feature-set']}`],
    ['Identity', wholeKey(identity.identity)],
    ['Genesis', wholeKey(genesisHash)],
    ['JSON-RPC', own?.rpc ? h('code', {}, `http://${own.rpc}`) : null],
    ['WebSocket', own?.pubsub ? h('code', {}, `ws://${own.pubsub}`) : null],
    ['QUIC', own?.tpuQuic ? h('code', {}, own.tpuQuic) : null],
    ['Nodes', clusterNodes.length > 1 ? grouped(clusterNodes.length) : null],
  ]);
}

function loadFacts({ at, families }, before) {
  const one = (name, labels) => value(families, name, labels);
  const perSecond = (name) => {
    if (!before) return null;
    const earlier = value(before.families, name) ?? 0;
    return ((one(name) ?? 0) - earlier) / ((at - before.at) / 1_000);
  };
  const cpu = perSecond('process_cpu_seconds_total');
  const count = (name, labels) => grouped(one(name, labels) ?? 0);
  return facts([
    ['CPU', cpu === null ? '–' : `${Math.round(cpu * 100)} % of a core`],
    ['Resident memory', bytes(one('process_resident_memory_bytes') ?? 0)],
    ['Connections', `${count('hydrant_http_connections_open')} HTTP, ${count('hydrant_websocket_connections')} WebSocket`],
    ['Subscriptions', count('hydrant_subscriptions')],
    ['Accounts', count('hydrant_accounts')],
    ['Tasks in the pool', [...sums(families, 'hydrant_requests_in_flight', 'class').values()].reduce((sum, it) => sum + it, 0)],
    ['Oldest block', count('hydrant_history_first_slot')],
  ]);
}

function memoryTable(families) {
  const parts = [...sums(families, 'hydrant_memory_bytes', 'part')].filter(([, it]) => it > 0).sort(([, one], [, other]) => other - one);
  const most = parts[0]?.[1] ?? 1;
  const rows = parts.map(([part, it]) => {
    const bar = h('i', { class: 'bar' });
    bar.style.width = `${Math.max(0.5, (100 * it) / most)}%`;
    const name = h('span', {}, part.replace(/_/g, ' '), MEANINGS[part] && h('small', { class: 'faint' }, ` ${MEANINGS[part]}`));
    return row(PARTS, [name, bar, bytes(it)]);
  });
  const total = parts.reduce((sum, [, it]) => sum + it, 0);
  rows.push(row(PARTS, [h('b', {}, 'all parts'), '', h('b', {}, bytes(total))]));
  return table(PARTS, rows, 'Memory by part').node;
}

function requestTable({ at, families }, before) {
  const [totals, errors] = [sums(families, 'hydrant_requests_total', 'method'), sums(families, 'hydrant_request_errors_total', 'method')];
  if (totals.size === 0) return notice('None yet.');
  const earlier = before ? sums(before.families, 'hydrant_requests_total', 'method') : null;
  const durations = histograms(families, 'hydrant_request_duration_seconds', 'method');
  const lastDurations = before ? histograms(before.families, 'hydrant_request_duration_seconds', 'method') : new Map();
  const elapsed = before ? (at - before.at) / 1_000 : NaN;
  const lines = [...totals].map(([method, total]) => {
    const added = total - (earlier?.get(method) ?? 0);
    const recent = since(durations.get(method) ?? new Map(), lastDurations.get(method));
    // Of the last two seconds if there were requests, else since the start.
    const buckets = before && added > 0 ? recent : durations.get(method) ?? new Map();
    return { method, total, perSecond: before ? added / elapsed : NaN, p50: quantile(buckets, 0.5), p99: quantile(buckets, 0.99), errors: errors.get(method) ?? 0 };
  });
  lines.sort((one, other) => (other.perSecond || 0) - (one.perSecond || 0) || other.total - one.total);
  const cells = (it) => [
    h('code', {}, it.method), Number.isNaN(it.perSecond) ? '–' : rate(it.perSecond), seconds(it.p50), seconds(it.p99),
    it.errors > 0 ? grouped(it.errors) : '', grouped(it.total),
  ];
  return table(METHODS, lines.map((it) => row(METHODS, cells(it), { key: it.method })), 'Requests by method').node;
}
