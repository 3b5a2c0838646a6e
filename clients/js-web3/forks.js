// A reorganization, and a revert to a snapshot, as web3.js sees them. Only on a node that makes its blocks itself.

import assert from 'node:assert/strict';
import { Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import { call } from '../json_rpc.js';
import { Inbox, followed } from '../steps.js';
import { connection, payer, socketSettled } from './world.js';

// A transfer on a final blockhash, which is on both forks.
async function transfer(to, lamports) {
  const latest = await connection.getLatestBlockhash('finalized');
  const transaction = new Transaction({ feePayer: payer.publicKey, ...latest }).add(
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports }),
  );
  transaction.sign(payer);
  const raw = transaction.serialize();
  const send = async () => {
    const signature = await connection.sendRawTransaction(raw);
    const { value } = await connection.confirmTransaction({ signature, ...latest }, 'confirmed');
    assert.equal(value.err, null);
    return signature;
  };
  return send;
}

const statusOf = async (signature) => (await connection.getSignatureStatus(signature)).value;

export function forkSteps(step) {
  if (followed) return;

  step('forks: a reorganization drops a transaction, which lands again', async () => {
    const carol = Keypair.generate().publicKey;
    const [changes, updates] = [new Inbox('account'), new Inbox('slotsUpdates')];
    const ids = [
      connection.onAccountChange(carol, (account, { slot }) => changes.push({ lamports: account.lamports, slot }), {
        commitment: 'confirmed',
      }),
      connection.onSlotUpdate((update) => updates.push(update)),
    ];
    await socketSettled();
    const send = await transfer(carol, 3_000_000);
    const signature = await send();
    await changes.next(({ lamports }) => lamports === 3_000_000);

    const { slot } = await statusOf(signature);
    const newest = await connection.getSlot('confirmed');
    // The clock may end some blocks meanwhile.
    const reorg = await call('hydrant_reorg', { depth: newest - slot + 8, transactions: 'drop' });
    assert.ok(reorg.left.includes(slot), JSON.stringify({ slot, reorg }));
    assert.equal(await connection.getBalance(carol), 0);
    assert.equal(await statusOf(signature), null);
    const back = await changes.next(({ lamports }) => lamports === 0);
    assert.ok(reorg.entered.includes(back.slot), JSON.stringify({ back, reorg }));
    await updates.next((update) => update.type === 'dead' && update.slot === slot);
    await assert.rejects(connection.getBlock(slot, { maxSupportedTransactionVersion: 0 }));

    assert.equal(await send(), signature);
    assert.ok((await statusOf(signature)).slot > slot);
    await changes.next((change) => change.lamports === 3_000_000 && change.slot > back.slot);
    await connection.removeAccountChangeListener(ids[0]);
    await connection.removeSlotUpdateListener(ids[1]);
  });

  step('forks: a revert to a snapshot', async () => {
    const carol = Keypair.generate().publicKey;
    const first = await transfer(carol, 2_000_000);
    const second = await transfer(carol, 1_000_000);
    await first();
    const snapshot = await call('hydrant_snapshot');
    const before = await connection.getSlot('confirmed');
    const signature = await second();
    assert.equal(await connection.getBalance(carol), 3_000_000);
    assert.equal(await call('hydrant_revert', snapshot), true);
    assert.equal(await connection.getBalance(carol), 2_000_000);
    assert.equal(await statusOf(signature), null);
    assert.ok((await connection.getSlot('confirmed')) > before);
    assert.equal(await second(), signature);
    assert.equal(await connection.getBalance(carol), 3_000_000);
  });
}
