// The view of a block: what it is, and its transactions.

import { ApiError, get, path } from './api.js';
import { h } from './dom.js';
import { grouped, sol, time } from './format.js';
import { accountLink, card, facts, notice, slotLink, source, table, wholeKey } from './parts.js';
import { COLUMNS, isVote, signatureRow, transactionRow } from './transaction_list.js';

// Larger blocks are shown by their signatures.
const WHOLE_MAX = 200;
const PAGE = 100;
const NOT_YET = -32004;

export async function block(container, { params: [text], signal, tip, onClose }) {
  const slot = Number(text);
  const at = (details) => path(['blocks', slot], { commitment: 'confirmed', ...details });
  const counted = at({ transactionDetails: 'signatures' });
  const { value } = await getWhenConfirmed(counted, slot, { signal, tip, onClose, container });
  const isWhole = value.signatures.length <= WHOLE_MAX;
  const whole = at({ transactionDetails: 'full', encoding: 'jsonParsed' });
  const transactions = isWhole ? (await get(whole, { signal })).value.transactions : null;
  container.replaceChildren(
    h('h1', {}, 'Block ', h('span', { class: 'num' }, grouped(slot))),
    blockFacts(slot, value, transactions),
    transactions ? transactionCard(transactions, slot) : signatureCard(value.signatures, slot),
    source(isWhole ? whole : counted),
  );
}

// A block that is not confirmed yet is requested again when the tip has passed it.
async function getWhenConfirmed(at, slot, { signal, tip, onClose, container }) {
  for (;;) {
    try {
      return await get(at, { signal });
    } catch (err) {
      const isAhead = err instanceof ApiError && err.code === NOT_YET && slot >= (tip.slots.confirmed ?? 0);
      if (!isAhead) throw err;
      container.replaceChildren(h('h1', {}, `Block ${grouped(slot)}`), notice('This block is not confirmed yet. It is shown as soon as it is.'));
      await new Promise((resolve) => {
        const stop = tip.onChange(() => {
          if ((tip.slots.confirmed ?? 0) < slot && !signal.aborted) return;
          stop();
          resolve();
        });
        onClose(() => { stop(); resolve(); });
      });
      signal.throwIfAborted();
    }
  }
}

function blockFacts(slot, value, transactions) {
  const failed = transactions?.filter(({ meta }) => meta?.err).length;
  const fees = (value.rewards ?? []).filter((it) => it.rewardType === 'Fee');
  return card(null, facts([
    ['Time', time(value.blockTime)],
    ['Height', value.blockHeight === null ? null : grouped(value.blockHeight)],
    ['Transactions', grouped(value.signatures.length) + (failed ? `, ${grouped(failed)} failed` : '')],
    ['Blockhash', wholeKey(value.blockhash)],
    ['Parent', h('span', {}, slotLink(value.parentSlot), ' ', h('span', { class: 'key faint wide' }, value.previousBlockhash))],
    ['Next', slotLink(slot + 1)],
    ['Fees', fees.length > 0 ? h('span', {}, fees.map((it) => [`${sol(it.lamports)} SOL to `, accountLink(it.pubkey)])) : null],
  ]));
}

function transactionCard(transactions, slot) {
  const list = table(COLUMNS, [], 'Transactions of the block');
  const votes = transactions.filter(isVote);
  const toggle = h('input', { type: 'checkbox', id: 'votes', onchange: () => draw() });
  const draw = () => {
    const shown = toggle.checked ? transactions : transactions.filter((it) => !votes.includes(it));
    list.body.replaceChildren(...shown.map((it) => transactionRow(it, slot)));
  };
  draw();
  const label = votes.length > 0 && h('label', { class: 'toggle' }, toggle, ` Votes (${grouped(votes.length)})`);
  return card('Transactions', label, list.node, transactions.length === votes.length && notice('Only votes.'));
}

function signatureCard(signatures, slot) {
  const list = table(COLUMNS, [], 'Transactions of the block');
  let shown = 0;
  const more = h('button', { type: 'button', onclick: () => add() }, `Show ${PAGE} more`);
  const add = () => {
    list.body.append(...signatures.slice(shown, shown + PAGE).map((it) => signatureRow(it, slot)));
    shown += PAGE;
    more.hidden = shown >= signatures.length;
  };
  add();
  return card('Transactions', list.node, more);
}

