// A reorganization, and a revert to a snapshot, as kit sees them. Only on a node that makes its blocks itself.

import assert from 'node:assert/strict';
import {
  generateKeyPairSigner, getBase64EncodedWireTransaction, getSignatureFromTransaction, lamports,
} from '@solana/kit';
import { getTransferSolInstruction } from '@solana-program/system';
import { call } from '../json_rpc.js';
import { followed, until } from '../steps.js';
import { CONFIRMED, listen, payer, rpc, rpcSubscriptions, signed, unstable } from './world.js';

const balanceOf = async (address) => (await rpc.getBalance(address, CONFIRMED).send()).value;
const statusOf = async (signature) => (await rpc.getSignatureStatuses([signature]).send()).value[0];

// Sends a transaction, and waits until it is confirmed.
async function land(transaction) {
  const signature = getSignatureFromTransaction(transaction);
  const wire = getBase64EncodedWireTransaction(transaction);
  await rpc.sendTransaction(wire, { encoding: 'base64', preflightCommitment: 'confirmed' }).send();
  const status = await until(`transaction ${signature}`, async () => {
    const found = await statusOf(signature);
    return found && found.confirmationStatus !== 'processed' ? found : null;
  });
  assert.equal(status.err, null);
  return status;
}

export function forkSteps(step) {
  if (followed) return;

  step('forks: a reorganization drops a transaction', async () => {
    const carol = (await generateKeyPairSigner()).address;
    const changes = await listen('account', rpcSubscriptions.accountNotifications(carol, { ...CONFIRMED, encoding: 'base64' }));
    const updates = await listen('slotsUpdates', unstable.slotsUpdatesNotifications());
    const transaction = await signed([getTransferSolInstruction({ source: payer, destination: carol, amount: lamports(3_000_000n) })]);
    const { slot } = await land(transaction);
    await changes.next(({ value }) => value.lamports === 3_000_000n);
    const newest = await rpc.getSlot(CONFIRMED).send();
    // The clock may end some blocks meanwhile.
    const depth = Number(newest - slot) + 8;
    const reorg = await call('hydrant_reorg', { depth, transactions: 'drop' });
    assert.ok(reorg.left.includes(Number(slot)), JSON.stringify({ slot: Number(slot), reorg }));
    assert.equal(await balanceOf(carol), 0n);
    assert.equal(await statusOf(getSignatureFromTransaction(transaction)), null);
    await changes.next(({ value }) => value.lamports === 0n);
    await updates.next((update) => update.type === 'dead' && update.slot === slot);
    changes.stop();
    updates.stop();
  });

  step('forks: a revert to a snapshot', async () => {
    const carol = (await generateKeyPairSigner()).address;
    const pay = (amount) => signed([getTransferSolInstruction({ source: payer, destination: carol, amount: lamports(amount) })]);
    const [first, second] = [await pay(2_000_000n), await pay(1_000_000n)];
    await land(first);
    const snapshot = await call('hydrant_snapshot');
    await land(second);
    assert.equal(await balanceOf(carol), 3_000_000n);
    assert.equal(await call('hydrant_revert', snapshot), true);
    assert.equal(await balanceOf(carol), 2_000_000n);
    assert.equal(await statusOf(getSignatureFromTransaction(second)), null);
    // Its blockhash is older than the snapshot, so the same transaction lands again.
    await land(second);
    assert.equal(await balanceOf(carol), 3_000_000n);
  });
}
