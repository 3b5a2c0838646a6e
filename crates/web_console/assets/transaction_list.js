// Rows of transactions: the newest ones in history, and those of new blocks as they are confirmed.
//
// No address is named by all transactions but votes. The history of three programs has most of the newest ones.
// Bounds: one request at a time. Of blocks with up to 40 transactions all are read, without votes. Of larger ones one
// every two seconds is, and the first of its signatures stand for it.

import { get, path } from './api.js';
import { h } from './dom.js';
import { sol } from './format.js';
import { summary } from './instructions.js';
import { COMMON_PROGRAMS, COMPUTE_BUDGET, errorText, VOTE_PROGRAM } from './names.js';
import { accountLink, row, slotLink, statusBadge, transactionLink } from './parts.js';

const WHOLE_MAX = 40;
const WAITING_MAX = 8;
const SAMPLE_MS = 2_000;
const SAMPLE_SIZE = 12;

export const COLUMNS = [
  { title: '', class: 'mark' }, { title: 'Transaction' }, { title: 'What it does', class: 'grow' },
  { title: 'Fee payer', class: 'wide' }, { title: 'Fee, SOL', class: 'num wide' }, { title: 'Slot', class: 'num' },
];

export const isVote = ({ transaction }) =>
  transaction.message.instructions.every((it) => it.programId === VOTE_PROGRAM);

// A row for a transaction with its metadata.
export function transactionRow({ transaction, meta }, slot) {
  const { accountKeys, instructions } = transaction.message;
  const shown = instructions.filter((it) => it.programId !== COMPUTE_BUDGET);
  const text = summary(shown.length > 0 ? shown : instructions);
  const failure = errorText(meta?.err);
  const what = h('span', { class: 'cut', title: text }, failure ? h('span', { class: 'bad' }, `${failure}; `) : null, text);
  return row(COLUMNS, [
    statusBadge(meta?.err), transactionLink(transaction.signatures[0], 5), what,
    accountLink(accountKeys[0].pubkey), meta ? sol(meta.fee) : '', slotLink(slot),
  ], { key: transaction.signatures[0] });
}

// A row for a transaction of which only the signature is known.
export function signatureRow(signature, slot) {
  return row(COLUMNS, ['', transactionLink(signature, 5), h('span', { class: 'faint' }, 'one of many in its block'), '', '', slotLink(slot)], { key: signature });
}

// Rows of the newest transactions in history, the newest first.
export async function newestTransactions({ signal }, count) {
  const history = async (program) => {
    const { value } = await get(path(['accounts', program, 'transactions'], { commitment: 'confirmed', limit: count }), { signal });
    return value.transactions;
  };
  const found = new Map((await Promise.all(COMMON_PROGRAMS.map(history))).flat().map((it) => [it.signature, it]));
  const newest = [...found.values()].sort((one, other) => other.slot - one.slot || other.transactionIndex - one.transactionIndex);
  return Promise.all(newest.slice(0, count).map(async ({ signature, slot }) => {
    const at = path(['transactions', signature], { commitment: 'confirmed', encoding: 'jsonParsed' });
    return transactionRow((await get(at, { signal })).value, slot);
  }));
}

// Rows of the transactions in blocks that `tip` reports as confirmed, handed to `add` block by block.
export function watchTransactions({ tip, signal }, add) {
  const seen = new Set();
  let waiting = [];
  let isReading = false;
  let sampledAt = 0;

  async function read({ slot, transactions }) {
    const isWhole = transactions <= WHOLE_MAX;
    if (!isWhole && Date.now() - sampledAt < SAMPLE_MS) return;
    const details = isWhole ? { transactionDetails: 'full', encoding: 'jsonParsed' } : { transactionDetails: 'signatures' };
    const { value } = await get(path(['blocks', slot], { commitment: 'confirmed', rewards: false, ...details }), { signal });
    if (isWhole) {
      add(value.transactions.filter((it) => !isVote(it)).map((it) => transactionRow(it, slot)));
    } else {
      sampledAt = Date.now();
      add(value.signatures.slice(0, SAMPLE_SIZE).map((it) => signatureRow(it, slot)));
    }
  }

  async function readAll() {
    isReading = true;
    while (waiting.length > 0 && !signal.aborted) {
      // A block that is pruned, or a node that is busy: the next block follows soon.
      await read(waiting.shift()).catch(() => {});
    }
    isReading = false;
  }

  return tip.onChange(() => {
    if (document.hidden) return;
    const isNew = ({ slot, state, transactions }) => ['confirmed', 'finalized'].includes(state) && transactions > 0 && !seen.has(slot);
    const blocks = tip.newest(WAITING_MAX).filter(isNew).reverse();
    blocks.forEach(({ slot }) => seen.add(slot));
    for (const slot of seen) if (slot < tip.slots.processed - 1_000) seen.delete(slot);
    waiting = [...waiting, ...blocks].slice(-WAITING_MAX);
    if (!isReading) readAll();
  });
}
