// What an open page sends, compared with crates/web_console/traffic.json, which the benchmark `console` replays.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { until } from '../steps.js';

const { constants, views } = JSON.parse(readFileSync(new URL('../../crates/web_console/traffic.json', import.meta.url)));
// Two intervals, and the reload of a page's own.
const INTERVALS = 3;

// Paths with names in place of what varies.
const nameOf = (path) => path
  .replace(/^\/v1\/blocks\/\d+/, '/v1/blocks/{slot}')
  .replace(/^\/v1\/accounts\/\w+/, '/v1/accounts/{address}')
  .replace(/^\/v1\/transactions\/\w+/, '/v1/transactions/{signature}');

// A recorder of a view's requests and subscriptions: `record` gets the page before it loads anything.
export function recordTraffic(name) {
  const { hash, subscriptions, polls, blocks, once } = views[name];
  const [counts, sent] = [new Map(), []];
  let startedAt;

  function record(page) {
    startedAt = Date.now();
    page.on('request', (request) => {
      const { pathname, search } = new URL(request.url());
      if (pathname === '/' || pathname.startsWith('/console/')) return;
      const path = nameOf(pathname + search);
      counts.set(path, (counts.get(path) ?? 0) + 1);
    });
    page.on('websocket', (socket) => socket.on('framesent', ({ payload }) => {
      const { method, params } = JSON.parse(payload);
      sent.push({ method, params });
    }));
  }

  // Each listed request was sent, no other one was, and none more often than it is listed.
  async function assertListed({ hasSmallBlocks }) {
    const block = blocks && (hasSmallBlocks ? blocks.whole : blocks.sample);
    const other = blocks && (hasSmallBlocks ? blocks.sample : blocks.whole);
    const expected = [...polls.map(({ path }) => path), ...(block ? [block] : [])];
    const isRepeated = () => expected.every((path) => (counts.get(path) ?? 0) >= INTERVALS);
    await until(`${INTERVALS} times ${expected.join(', ')}`, isRepeated);
    const elapsedMs = Date.now() - startedAt;
    const listed = [...expected, ...once, ...(other ? [other] : [])];
    assert.deepEqual([...counts.keys()].filter((path) => !listed.includes(path)), []);
    assert.deepEqual(sent, subscriptions);
    for (const path of new Set(polls.map((poll) => poll.path))) {
      const timers = polls.filter((poll) => poll.path === path).map(({ every }) => constants[every]);
      // Each timer fires at once, and before the WebSocket is open the tip is polled twice as often.
      const most = timers.reduce((sum, everyMs) => sum + elapsedMs / everyMs + 3, 0);
      assert.ok(counts.get(path) <= most, `${path}: ${counts.get(path)} in ${elapsedMs} ms`);
    }
  }

  return { hash, record, assertListed };
}
