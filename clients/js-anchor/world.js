// What every step shares: the connection and the keys, and what an Anchor provider is made of.

import assert from 'node:assert/strict';
import { Connection, Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { Inbox, env, until } from '../steps.js';

export const connection = new Connection(env('HYDRANT_RPC_URL'), 'confirmed');
export const CONFIRMED = { commitment: 'confirmed', preflightCommitment: 'confirmed' };

export const payer = Keypair.generate();
export const alice = Keypair.generate();

// A provider of one of Anchor's packages, as its users make it.
export function providerOf(anchor) {
  // Node imports only some names of a CommonJS module; the wallet is not among them.
  const { Wallet } = anchor.default;
  return new anchor.AnchorProvider(connection, new Wallet(payer), CONFIRMED);
}

export async function airdrop(to, sol) {
  const latest = await connection.getLatestBlockhash();
  const signature = await connection.requestAirdrop(to, sol * LAMPORTS_PER_SOL);
  const { value } = await connection.confirmTransaction({ signature, ...latest }, 'confirmed');
  assert.equal(value.err, null);
}

// The transaction once it is in a block.
export function transactionOf(signature) {
  return until(`transaction ${signature}`, () =>
    connection.getTransaction(signature, { commitment: 'confirmed', maxSupportedTransactionVersion: 0 }),
  );
}

// Resolves once the node has a confirmed slot after `slot`.
export function slotAfter(slot) {
  return until(`a slot after ${slot}`, async () => (await connection.getSlot()) > slot);
}

// Resolves once the node has answered everything asked on the socket so far: it answers in order.
export async function socketSettled() {
  const slots = new Inbox('slotSubscribe');
  const id = connection.onSlotChange((slot) => slots.push(slot));
  await slots.next();
  await connection.removeSlotChangeListener(id);
}
