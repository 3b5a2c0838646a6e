// Bundles through jito-js-rpc, the client that Jito publishes, with transactions of web3.js.

import assert from 'node:assert/strict';
import bs58 from 'bs58';
import { JitoJsonRpcClient } from 'jito-js-rpc';
import { Keypair, PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import { env, flow } from '../steps.js';
import { airdrop, alice, bob, connection, payer, transactionOf } from './world.js';

const { step, run } = flow('jito');
const jito = new JitoJsonRpcClient(env('HYDRANT_RPC_URL'));

// What Jito's documents name as the smallest tip.
const TIP = 1_000;

const transfer = (from, to, lamports) =>
  SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports });

async function signed(...transfers) {
  const { blockhash } = await connection.getLatestBlockhash();
  return transfers.map(([from, to, lamports]) => {
    const transaction = new Transaction({ feePayer: from.publicKey, recentBlockhash: blockhash });
    transaction.add(transfer(from, to, lamports)).sign(from);
    return transaction;
  });
}

const base64 = (transaction) => transaction.serialize().toString('base64');
const base58 = (transaction) => bs58.encode(transaction.serialize());

step('the payer is funded, and there are tip accounts', async () => {
  await airdrop(payer.publicKey, 10);
  const { result } = await jito.getTipAccounts();
  assert.equal(new Set(result.map((text) => new PublicKey(text).toBase58())).size, 8);
});

step('a bundle with a tip lands in one block', async () => {
  const tip = new PublicKey(await jito.getRandomTipAccount());
  const before = await connection.getBalance(tip);
  const bundle = await signed(
    [payer, alice.publicKey, 3_000_000_000],
    [alice, bob.publicKey, 2_000_000_000],
    [payer, tip, TIP],
  );
  const { result: id } = await jito.sendBundle([bundle.map(base64), { encoding: 'base64' }]);
  assert.match(id, /^[0-9a-f]{64}$/);
  const landed = await jito.confirmInflightBundle(id, 30_000);
  assert.equal(landed.bundle_id, id);
  assert.deepEqual(landed.err, { Ok: null });
  assert.match(landed.confirmation_status, /^(processed|confirmed|finalized)$/);
  assert.deepEqual(landed.transactions, bundle.map(({ signature }) => bs58.encode(signature)));
  for (const signature of landed.transactions) {
    assert.equal((await transactionOf(signature)).slot, landed.slot);
  }
  assert.equal(await connection.getBalance(bob.publicKey), 2_000_000_000);
  assert.equal(await connection.getBalance(tip), before + TIP);
});

step('a bundle of which the last transaction fails does not land', async () => {
  const carol = Keypair.generate();
  const bundle = await signed(
    [payer, carol.publicKey, 1_000_000_000],
    [carol, bob.publicKey, 5_000_000_000],
  );
  const { result: id } = await jito.sendBundle([bundle.map(base58)]);
  const failed = await jito.confirmInflightBundle(id, 30_000);
  assert.equal(failed.status, 'Failed');
  assert.match(failed.err, /custom program error: 0x1$/);
  assert.deepEqual((await jito.getBundleStatuses([[id]])).result.value, [null]);
  assert.equal(await connection.getBalance(carol.publicKey, 'processed'), 0);
});

step('an unknown bundle is invalid', async () => {
  const { result } = await jito.getInFlightBundleStatuses([['0'.repeat(64)]]);
  assert.deepEqual(result.value, [{ bundle_id: '0'.repeat(64), status: 'Invalid', landed_slot: null }]);
});

run();
