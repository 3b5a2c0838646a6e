// Subscriptions that follow the chain and one signature; those of accounts are with the tokens.

import assert from 'node:assert/strict';
import { getBase64EncodedWireTransaction, getSignatureFromTransaction, lamports } from '@solana/kit';
import { getTransferSolInstruction } from '@solana-program/system';
import { bob, listen, payer, rpc, rpcSubscriptions, signed, unstable } from './world.js';

export function subscriptionSteps(step) {
  step('subscriptions: slots and roots follow the chain', async () => {
    const slots = await listen('slot', rpcSubscriptions.slotNotifications());
    const roots = await listen('root', rpcSubscriptions.rootNotifications());
    const first = await slots.next();
    assert.equal(first.parent, first.slot - 1n);
    const next = await slots.next(({ slot }) => slot > first.slot);
    assert.equal(next.slot, first.slot + 1n);
    const root = await roots.next();
    assert.equal(await roots.next((later) => later > root), root + 1n);
    slots.stop();
    roots.stop();
  });

  step('subscriptions: slot updates, votes and blocks', async () => {
    const updates = await listen('slotsUpdates', unstable.slotsUpdatesNotifications());
    const votes = await listen('vote', unstable.voteNotifications());
    const blocks = await listen('block', unstable.blockNotifications({ mentionsAccountOrProgram: payer.address }, {
      commitment: 'confirmed', encoding: 'jsonParsed', maxSupportedTransactionVersion: 0, transactionDetails: 'full',
    }));
    for (const type of ['createdBank', 'frozen', 'optimisticConfirmation', 'root']) {
      await updates.next((update) => update.type === type);
    }
    const leader = await rpc.getSlotLeader().send();
    const vote = await votes.next();
    const { current } = await rpc.getVoteAccounts().send();
    assert.equal(vote.votePubkey, current[0].votePubkey);
    assert.equal(current[0].nodePubkey, leader);
    assert.ok(vote.slots.length > 0);

    const transaction = await signed([getTransferSolInstruction({ source: payer, destination: bob.address, amount: lamports(1_000_000n) })]);
    const signature = getSignatureFromTransaction(transaction);
    await rpc.sendTransaction(getBase64EncodedWireTransaction(transaction), { encoding: 'base64', preflightCommitment: 'confirmed' }).send();
    const { value } = await blocks.next();
    assert.equal(value.err, null);
    assert.equal(value.block.parentSlot, value.slot - 1n);
    const mine = value.block.transactions.find((each) => each.transaction.signatures[0] === signature);
    assert.ok(mine, 'the block holds the transaction that mentions the address');
    assert.equal(mine.transaction.message.instructions[0].parsed.type, 'transfer');
    for (const inbox of [updates, votes, blocks]) inbox.stop();
  });

  step('subscriptions: a signature, received and final', async () => {
    const transaction = await signed([getTransferSolInstruction({ source: payer, destination: bob.address, amount: lamports(1_000_001n) })]);
    const signature = getSignatureFromTransaction(transaction);
    const received = await listen('signature', rpcSubscriptions.signatureNotifications(signature, {
      commitment: 'processed', enableReceivedNotification: true,
    }));
    const final = await listen('signature', rpcSubscriptions.signatureNotifications(signature, { commitment: 'finalized' }));
    await rpc.sendTransaction(getBase64EncodedWireTransaction(transaction), { encoding: 'base64', preflightCommitment: 'confirmed' }).send();
    await received.next(({ value }) => value === 'receivedSignature');
    assert.deepEqual((await received.next(({ value }) => value !== 'receivedSignature')).value, { err: null });
    assert.deepEqual((await final.next()).value, { err: null });
    const { value: [status] } = await rpc.getSignatureStatuses([signature], { searchTransactionHistory: true }).send();
    assert.equal(status.confirmationStatus, 'finalized');
    received.stop();
    final.stop();

    // On the same socket, after the fact: Kit hears only what comes after the burst with the reply.
    for (const commitment of ['processed', 'confirmed', 'finalized']) {
      const late = await listen('signature', rpcSubscriptions.signatureNotifications(signature, { commitment }));
      assert.deepEqual((await late.next()).value, { err: null }, commitment);
      late.stop();
    }
  });
}
