// The view of a transaction: how it ended, its instructions with those that they called, its balance changes, its logs.
//
// A transaction that is not confirmed yet is waited for, in requests of 20 s.

import { ApiError, get, path } from './api.js';
import { h } from './dom.js';
import { grouped, signed, sol, time } from './format.js';
import { instructionList } from './instructions.js';
import { logList, parseLogs, unitsByInstruction } from './logs.js';
import { errorText, failedInstruction } from './names.js';
import { accountLink, card, facts, notice, rawJson, row, slotLink, source, statusBadge, table, wholeKey } from './parts.js';

const WAIT_MS = 20_000;
const SOL_DECIMALS = 9;
const BALANCES = [
  { title: 'Account', class: 'grow' }, { title: 'Before', class: 'num wide' }, { title: 'After', class: 'num wide' },
  { title: 'Change', class: 'num' },
];

export async function transaction(container, { params: [signature], signal }) {
  const at = path(['transactions', signature], { commitment: 'confirmed', encoding: 'jsonParsed' });
  const { value } = await getWhenConfirmed(at, signature, { signal, container });
  const { meta } = value;
  const { instructions } = value.transaction.message;
  const logs = parseLogs(meta?.logMessages ?? []);
  const units = unitsByInstruction(logs, instructions.map((it) => it.programId));
  const list = instructionList(instructions, { inner: meta?.innerInstructions ?? [], units, failed: failedInstruction(meta?.err) });
  container.replaceChildren(
    h('h1', {}, 'Transaction ', statusBadge(meta?.err)),
    transactionFacts(signature, value),
    h('div', { class: 'columns even' },
      card('Instructions', list),
      h('div', {}, balanceCard(value), card('Logs', logs.length > 0 ? logList(logs) : notice('None.')))),
    rawJson(value),
    source(at),
  );
}

async function getWhenConfirmed(at, signature, { signal, container }) {
  const status = path(['transactions', signature, 'status'], { commitment: 'confirmed', waitMs: WAIT_MS });
  let isConfirmed = false;
  for (;;) {
    try {
      return await get(at, { signal });
    } catch (err) {
      // A node may know that a transaction was executed before its history begins.
      if (!(err instanceof ApiError) || err.status !== 404 || isConfirmed) throw err;
    }
    container.replaceChildren(h('h1', {}, 'Transaction'), notice('No transaction with this signature is confirmed. It is shown as soon as it is.'), h('p', { class: 'key' }, signature));
    try {
      const { value } = await get(status, { signal });
      isConfirmed = ['confirmed', 'finalized'].includes(value.confirmationStatus);
    } catch (err) {
      if (err.status !== 404) throw err;
    }
  }
}

function transactionFacts(signature, { slot, blockTime, meta, transaction: tx, version }) {
  const used = meta?.computeUnitsConsumed;
  return card(null, facts([
    ['Signature', wholeKey(signature)],
    ['Error', meta?.err ? h('span', { class: 'bad' }, errorText(meta.err)) : null],
    ['Block', slotLink(slot)],
    ['Time', time(blockTime)],
    ['Fee payer', accountLink(tx.message.accountKeys[0].pubkey, { isWhole: true })],
    ['Fee', meta ? `${sol(meta.fee)} SOL` : null],
    ['Compute units', used === undefined ? null : grouped(used)],
    ['Cost units', meta?.costUnits === undefined ? null : grouped(meta.costUnits)],
    ['Version', String(version ?? 'legacy')],
  ]));
}

// What changed: lamports by account, and amounts by token account.
function balanceCard({ transaction: tx, meta }) {
  if (!meta) return null;
  const keys = tx.message.accountKeys.map((it) => it.pubkey);
  const lamports = keys.flatMap((key, index) => {
    const [before, after] = [BigInt(meta.preBalances[index] ?? 0), BigInt(meta.postBalances[index] ?? 0)];
    return before === after ? [] : [changeRow(accountLink(key, { chars: 6 }), before, after, SOL_DECIMALS, 'SOL')];
  });
  const rows = [...lamports, ...tokenRows(keys, meta)];
  if (rows.length === 0) return card('Balance changes', notice('None.'));
  return card('Balance changes', table(BALANCES, rows, 'Balance changes').node);
}

function tokenRows(keys, { preTokenBalances, postTokenBalances }) {
  const changes = new Map();
  const add = (side, balances) => (balances ?? []).forEach((it) => {
    const change = changes.get(it.accountIndex) ?? { before: 0n, after: 0n };
    change[side] = BigInt(it.uiTokenAmount.amount);
    changes.set(it.accountIndex, { ...change, mint: it.mint, decimals: it.uiTokenAmount.decimals });
  });
  add('before', preTokenBalances);
  add('after', postTokenBalances);
  return [...changes].filter(([, { before, after }]) => before !== after).map(([index, { before, after, mint, decimals }]) => {
    const account = h('span', {}, accountLink(keys[index], { chars: 6 }), ' of ', accountLink(mint));
    return changeRow(account, before, after, decimals, 'tokens');
  });
}

function changeRow(account, before, after, decimals, unit) {
  const change = signed(after - before, decimals);
  const kind = after > before ? 'good' : 'bad';
  return row(BALANCES, [account, signed(before, decimals).replace('+', ''), signed(after, decimals).replace('+', ''), h('span', { class: kind }, change, h('small', {}, ` ${unit}`))]);
}
