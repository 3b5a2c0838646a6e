// The view of the ledger: its slots, the rate of transactions, the newest blocks and transactions.

import { h, setText } from './dom.js';
import { grouped, rate, seconds } from './format.js';
import { card, notice, row, slotLink, table } from './parts.js';
import { createPlot } from './plot.js';
import { COLUMNS, newestTransactions, watchTransactions } from './transaction_list.js';
import { slotName } from './verification.js';

const STRIP_CELLS = 60;
// Transactions of a full cell, at least: a single vote is a low one.
const STRIP_FULL_MIN = 8;
const BLOCK_ROWS = 12;
const TRANSACTION_ROWS = 14;
const REDRAW_MS = 200;
const BLOCK_COLUMNS = [
  { title: 'Slot', class: 'num' }, { title: 'State', class: 'grow' }, { title: 'Transactions', class: 'num' },
  { title: 'Failed', class: 'num' },
];

export function overview(container, context) {
  const { tip, config, onClose } = context;
  const stats = createStats(config);
  const plot = createPlot({ spanMs: tip.spanMs, label: 'Transactions per second over the last two minutes', text: (it) => `${rate(it)}/s` });
  const strip = createStrip();
  const blocks = table(BLOCK_COLUMNS, [], 'Newest blocks');
  const transactions = table(COLUMNS, [], 'Newest transactions');
  const none = notice('No transaction yet. Votes are not listed.');
  container.append(
    stats.node,
    card('Transactions per second, votes included', plot.node, tip.hasBlocks && strip.node),
    h('div', { class: tip.hasBlocks ? 'columns' : undefined },
      tip.hasBlocks && card('Blocks', blocks.node),
      h('section', { class: 'card' }, h('h2', {}, 'Transactions'), tip.hasBlocks ? none : notice('Each transaction has a block of its own. Search for a signature, or for the slot of a block.'), transactions.node)),
  );
  transactions.node.hidden = true;
  const blockRows = new Map();
  let drawnAt = 0;

  function draw() {
    const now = performance.now();
    if (now - drawnAt < REDRAW_MS || document.hidden) return;
    drawnAt = now;
    stats.update(tip);
    plot.update(tip.points, Math.max(Date.now(), tip.points.at(-1)?.at ?? 0));
    if (!tip.hasBlocks) return;
    strip.update(tip);
    updateBlockRows(blocks.body, blockRows, tip.newest(BLOCK_ROWS));
  }

  onClose(tip.onChange(draw));
  const addTransactions = (rows, place) => {
    const isShown = ({ dataset }) => [...transactions.body.children].some((it) => it.dataset.row === dataset.row);
    const added = rows.filter((it) => !isShown(it));
    if (added.length === 0) return;
    none.hidden = true;
    transactions.node.hidden = false;
    place(added);
    while (transactions.body.children.length > TRANSACTION_ROWS) transactions.body.lastElementChild.remove();
  };
  onClose(watchTransactions(context, (rows) => addTransactions(rows, (added) => transactions.body.prepend(...added.reverse()))));
  // Without them the list fills up all the same.
  newestTransactions(context, TRANSACTION_ROWS)
    .then((rows) => addTransactions(rows, (added) => transactions.body.append(...added)))
    .catch(() => {});
  const timer = setInterval(draw, 1_000);
  onClose(() => clearInterval(timer));
  draw();
}

// Rows stay the same elements, so that a selected one stays selected.
function updateBlockRows(body, rows, blocks) {
  for (const [slot, { node }] of rows) {
    if (!blocks.some((block) => block.slot === slot)) {
      node.remove();
      rows.delete(slot);
    }
  }
  [...blocks].reverse().forEach((block) => {
    if (!rows.has(block.slot)) {
      const cells = [slotLink(block.slot), h('span', { class: 'state' }), h('span'), h('span')];
      const node = row(BLOCK_COLUMNS, cells, { key: `block-${block.slot}` });
      rows.set(block.slot, { node, cells });
      body.prepend(node);
    }
    const [, state, count, failed] = rows.get(block.slot).cells;
    state.dataset.state = block.state;
    setText(state, block.state);
    setText(count, block.transactions === null ? '' : grouped(block.transactions));
    setText(failed, block.failed > 0 ? grouped(block.failed) : '');
  });
}

function createStats({ isFollowed }) {
  const names = ['Processed', 'Confirmed', 'Finalized', ...(isFollowed ? ['Verified'] : []), 'Transactions/s', 'Slot time', 'Health'];
  const values = new Map(names.map((name) => [name, h('dd', { 'data-stat': name.toLowerCase() }, '–')]));
  const headings = new Map(names.map((name) => [name, h('dt', {}, name)]));
  const node = h('dl', { class: 'stats' }, names.map((name) => h('div', {}, headings.get(name), values.get(name))));
  const set = (name, text) => values.has(name) && setText(values.get(name), text);
  const slot = (it) => (it === null ? '–' : grouped(it));
  const update = ({ slots, verified, verifiedLevel, rate: perSecond, slotMs, health }) => {
    set('Processed', slot(slots.processed));
    set('Confirmed', slot(slots.confirmed));
    set('Finalized', slot(slots.finalized));
    set('Verified', slot(verified));
    if (isFollowed) setText(headings.get('Verified'), slotName(verifiedLevel));
    set('Transactions/s', perSecond === null ? '–' : rate(perSecond));
    set('Slot time', slotMs === null ? '–' : seconds(slotMs / 1_000));
    set('Health', health ?? '–');
    values.get('Health').classList.toggle('bad', health !== null && health !== 'ok');
  };
  return { node, update };
}

// One cell for each of the newest slots: its height is the number of transactions, its shade the commitment.
function createStrip() {
  const node = h('div', { class: 'strip', 'aria-hidden': true });
  const cells = new Map();
  const update = (tip) => {
    const blocks = tip.newest(STRIP_CELLS).reverse();
    const most = Math.max(STRIP_FULL_MIN, ...blocks.map((it) => it.transactions ?? 0));
    for (const [slot, cell] of cells) {
      if (!blocks.some((it) => it.slot === slot)) {
        cell.remove();
        cells.delete(slot);
      }
    }
    for (const { slot, state, transactions, failed } of blocks) {
      if (!cells.has(slot)) {
        cells.set(slot, h('a', { href: `#/block/${slot}`, tabindex: '-1' }, h('i')));
        node.append(cells.get(slot));
      }
      const cell = cells.get(slot);
      cell.dataset.state = state;
      cell.title = `slot ${slot}: ${transactions ?? 'open'}${failed ? `, ${failed} failed` : ''}`;
      cell.firstElementChild.style.height = `${6 + (94 * (transactions ?? 0)) / most}%`;
    }
  };
  return { node, update };
}
