// A flow: named steps that run in order, judged by node's own test runner.
//
// Shape: `const { step, run } = flow('name'); step('what happens', async () => {...}); run();`
// Each step prints one line; the first that fails ends the flow, so its name is the last one printed.
// Bounds: a step has 60 s, a wait inside it 30 s. A wait is always for a value, never for time to pass. After a step that
// failed the process has 5 s to end.
// Not here: anything about Solana; each client's folder has its own.

import assert from 'node:assert/strict';
import { test } from 'node:test';

const STEP_MS_MAX = 60_000;
const WAIT_MS_MAX = 30_000;
const CLOSE_MS_MAX = 5_000;

// A flow with its list of steps; `run` hands them to the test runner, `last` is called in any case.
export function flow(title) {
  const steps = [];
  const step = (name, body) => steps.push({ name, body });
  const run = (last = async () => {}) =>
    test(title, async (t) => {
      try {
        const passed = await inOrder(t, steps);
        // Connections of the step that failed would keep the process, and so the runner's report.
        if (!passed) setTimeout(() => process.exit(), CLOSE_MS_MAX).unref();
      } finally {
        await last();
      }
    });
  return { step, run };
}

// Whether all steps passed.
async function inOrder(t, steps) {
  for (const { name, body } of steps) {
    let passed = false;
    await t.test(name, { timeout: STEP_MS_MAX }, async () => {
      await body();
      passed = true;
    });
    // The runner has recorded the failure already. Later steps would fail for the same reason.
    if (!passed) return false;
  }
  return true;
}

// The value of an environment variable that crates/hydrant/tests/it/clients.rs sets.
export function env(name) {
  const value = process.env[name];
  assert.ok(value, `${name} must be set: see clients/README.md`);
  return value;
}

// Whether the node follows another one, which leads every slot and has the faucet.
export const followed = process.env.HYDRANT_FOLLOWED === '1';

// Asks `probe` again until it gives something other than undefined, null or false.
export async function until(what, probe) {
  const end = Date.now() + WAIT_MS_MAX;
  for (;;) {
    const value = await probe();
    if (value !== undefined && value !== null && value !== false) return value;
    if (Date.now() > end) throw new Error(`waited ${WAIT_MS_MAX} ms for ${what}`);
    await new Promise((resume) => setTimeout(resume, 50));
  }
}

// Notifications of one subscription, in the order they came.
export class Inbox {
  constructor(what) {
    this.what = what;
    this.items = [];
    this.wakeups = [];
  }

  push(item) {
    this.items.push(item);
    this.wakeups.splice(0).forEach((wake) => wake());
  }

  // The first item that `matches` accepts, received already or later.
  async next(matches = () => true) {
    const end = Date.now() + WAIT_MS_MAX;
    for (let at = 0; ; at += 1) {
      while (at >= this.items.length) await this.#arrival(end);
      if (matches(this.items[at])) return this.items[at];
    }
  }

  #arrival(end) {
    return new Promise((wake, fail) => {
      const late = () => fail(new Error(`no such notification of ${this.what} in ${WAIT_MS_MAX} ms; had ${show(this.items)}`));
      const timer = setTimeout(late, end - Date.now());
      this.wakeups.push(() => {
        clearTimeout(timer);
        wake();
      });
    });
  }
}

// JSON with bigints, cut to what fits on a screen.
export function show(value) {
  const text = JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}n` : v)) ?? 'undefined';
  return text.length > 2_000 ? `${text.slice(0, 2_000)}... (${text.length} characters)` : text;
}
