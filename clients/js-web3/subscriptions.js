// Subscriptions that follow the chain and one signature; those of accounts are with the tokens.

import assert from 'node:assert/strict';
import { SystemProgram, Transaction } from '@solana/web3.js';
import bs58 from 'bs58';
import { Inbox } from '../steps.js';
import { bob, connection, payer, socketSettled } from './world.js';

export function subscriptionSteps(step) {
  step('subscriptions: slots, roots and slot updates follow the chain', async () => {
    const [slots, roots, updates] = [new Inbox('slot'), new Inbox('root'), new Inbox('slotsUpdates')];
    const ids = [
      connection.onSlotChange((slot) => slots.push(slot)),
      connection.onRootChange((root) => roots.push(root)),
      connection.onSlotUpdate((update) => updates.push(update)),
    ];
    const first = await slots.next();
    assert.equal(first.parent, first.slot - 1);
    assert.ok(first.root <= first.parent);
    const next = await slots.next(({ slot }) => slot > first.slot);
    assert.equal(next.slot, first.slot + 1);
    const root = await roots.next();
    assert.equal(await roots.next((later) => later > root), root + 1);
    for (const type of ['createdBank', 'frozen', 'optimisticConfirmation', 'root']) {
      const update = await updates.next((item) => item.type === type);
      assert.ok(update.slot > 0 && update.timestamp > 0, JSON.stringify(update));
    }
    await connection.removeSlotChangeListener(ids[0]);
    await connection.removeRootChangeListener(ids[1]);
    await connection.removeSlotUpdateListener(ids[2]);
  });

  step('subscriptions: a signature, received and at each commitment', async () => {
    const latest = await connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: payer.publicKey, ...latest }).add(
      SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: bob.publicKey, lamports: 1_000_000 }),
    );
    transaction.sign(payer);
    const signature = bs58.encode(transaction.signature);

    const inbox = new Inbox('signature');
    // web3.js drops a listener after its first notification, so each stage has a listener of its own.
    connection.onSignatureWithOptions(signature, (item) => inbox.push(item), {
      commitment: 'finalized',
      enableReceivedNotification: true,
    });
    for (const commitment of ['processed', 'confirmed', 'finalized']) {
      connection.onSignature(signature, (result, { slot }) => inbox.push({ type: commitment, result, slot }), commitment);
    }
    await socketSettled();
    assert.equal(await connection.sendRawTransaction(transaction.serialize()), signature);
    await inbox.next(({ type }) => type === 'received');
    const slots = [];
    for (const type of ['processed', 'confirmed', 'finalized']) {
      const item = await inbox.next((it) => it.type === type);
      assert.deepEqual(item.result, { err: null });
      slots.push(item.slot);
    }
    assert.ok(slots[0] <= slots[1] && slots[1] <= slots[2], `${slots}`);
    const { value } = await connection.getSignatureStatus(signature, { searchTransactionHistory: true });
    assert.equal(value.confirmationStatus, 'finalized');
    assert.equal(value.confirmations, null);
  });
}
