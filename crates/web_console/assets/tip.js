// The tip of the ledger: its slots, the newest blocks with their counts, and the rate of transactions.
//
// In: slotsUpdatesSubscribe, and /v1/ledger and /health every two seconds. A ledger that makes a block for each
// transaction, or a node whose WebSocket is refused, is polled once a second, and has no list of blocks.
// Bounds: 240 blocks, and points of two minutes, at most five a second.

import { get } from './api.js';

const BLOCKS_MAX = 240;
const SPAN_MS = 120_000;
const POINT_MS_MIN = 200;
const WINDOW_MS = 2_000;
// Shorter slots would be more notifications than a page can show.
const SUBSCRIBED_SLOT_MS_MIN = 50;
const POLL_MS = 1_000;
const POLL_SUBSCRIBED_MS = 2_000;
const STATES = ['open', 'complete', 'confirmed', 'finalized'];

export class Tip {
  slots = { processed: null, confirmed: null, finalized: null };
  verified = null;
  verifiedLevel = null;
  health = null;
  slotMs = null;
  rate = null;
  blocks = new Map();
  points = [];
  spanMs = SPAN_MS;
  #pubsub;
  #listeners = new Set();
  #window = [];
  #polledCount = null;
  #scheduled = false;
  hasBlocks;

  constructor(config, pubsub) {
    this.#pubsub = pubsub;
    this.hasBlocks = config.slotMs >= SUBSCRIBED_SLOT_MS_MIN;
  }

  start() {
    if (this.hasBlocks) this.#pubsub.subscribe('slotsUpdates', [], (update) => this.#apply(update));
    this.#poll();
  }

  // Calls `listener` after changes, at most once a frame.
  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // The newest blocks, the newest first.
  newest(count) {
    return [...this.blocks.values()].sort((one, other) => other.slot - one.slot).slice(0, count);
  }

  #apply({ type, slot, timestamp, stats }) {
    const at = Number(timestamp);
    if (type === 'createdBank') {
      this.#reach('processed', slot);
      this.#block(slot, 'open');
    } else if (type === 'frozen') {
      this.#reach('processed', slot);
      const block = this.#block(slot, 'complete');
      const { numSuccessfulTransactions: good, numFailedTransactions: failed } = stats;
      Object.assign(block, { transactions: good + failed, failed, at });
      this.#count(at, good + failed);
    } else if (type === 'optimisticConfirmation') {
      this.#reach('confirmed', slot);
      this.#block(slot, 'confirmed');
    } else if (type === 'root') {
      this.#reach('finalized', slot);
      this.#block(slot, 'finalized');
    } else if (type === 'dead') {
      this.#block(slot, 'open').state = 'dead';
    }
    this.#changed();
  }

  #reach(level, slot) {
    this.slots[level] = Math.max(this.slots[level] ?? 0, slot);
  }

  // The block of a slot, at least in this state.
  #block(slot, state) {
    let block = this.blocks.get(slot);
    if (!block) {
      block = { slot, state, transactions: null, failed: 0, at: null };
      // A block that was complete before this page was open has no counts: it is left out.
      if (state === 'finalized' || state === 'confirmed') return block;
      this.blocks.set(slot, block);
      if (this.blocks.size > BLOCKS_MAX) this.blocks.delete(this.blocks.keys().next().value);
    }
    if (STATES.indexOf(state) > STATES.indexOf(block.state)) block.state = state;
    return block;
  }

  // The rate over the last two seconds, or since the last block if that is longer ago.
  #count(at, transactions) {
    const window = this.#window;
    window.push({ at, transactions });
    while (window.length > 2 && window[1].at <= at - WINDOW_MS) window.shift();
    const [first] = window;
    if (at <= first.at) return;
    const elapsedMs = at - first.at;
    this.slotMs = elapsedMs / (window.length - 1);
    const sum = window.slice(1).reduce((total, it) => total + it.transactions, 0);
    // The clock of the node may not be that of the browser: the point is of now.
    this.#point(Date.now(), (sum * 1_000) / elapsedMs);
  }

  #point(at, value) {
    this.rate = value;
    const last = this.points.at(-1);
    if (last && at - last.at < POINT_MS_MIN) last.value = value;
    else this.points.push({ at, value });
    while (this.points.length > 0 && this.points[0].at < at - SPAN_MS) this.points.shift();
  }

  async #poll() {
    const isSubscribed = this.hasBlocks && this.#pubsub.isOpen;
    try {
      if (!document.hidden) await this.#read(isSubscribed);
    } catch (err) {
      this.health = err.message;
      this.#polledCount = null;
    }
    this.#changed();
    setTimeout(() => this.#poll(), isSubscribed ? POLL_SUBSCRIBED_MS : POLL_MS);
  }

  async #read(isSubscribed) {
    const [{ value }, health] = await Promise.all([get('/v1/ledger?commitment=processed'), fetch('/health')]);
    this.health = (await health.text()).trim();
    this.verified = value.verification?.verifiedSlot ?? null;
    this.verifiedLevel = value.verification?.requiredLevel ?? null;
    const slots = { processed: value.processedSlot, confirmed: value.confirmedSlot, finalized: value.finalizedSlot };
    if (isSubscribed) {
      // A notification may have been faster.
      Object.entries(slots).forEach(([level, slot]) => this.#reach(level, slot));
      this.#polledCount = null;
      return;
    }
    this.slots = slots;
    const now = { at: Date.now(), count: value.epochInfo.transactionCount, slot: value.processedSlot };
    const before = this.#polledCount;
    if (before && now.at > before.at) {
      this.#point(now.at, (Math.max(0, now.count - before.count) * 1_000) / (now.at - before.at));
      if (now.slot > before.slot) this.slotMs = (now.at - before.at) / (now.slot - before.slot);
    }
    this.#polledCount = now;
  }

  #changed() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#listeners.forEach((listener) => listener());
    });
  }
}
