// What every step shares: the connection, the keys, and how a transaction is sent and confirmed.
//
// The connection is made as an application makes it: a URL and a commitment. web3.js finds the WebSocket
// on the next port by itself. Over TLS there is a network before the WebSocket.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Connection, Keypair, LAMPORTS_PER_SOL, Transaction, sendAndConfirmTransaction } from '@solana/web3.js';
import { Inbox, env, until } from '../steps.js';
import { proxied } from './network.js';

export const rpcUrl = env('HYDRANT_RPC_URL');
const overTls = async () => ({ commitment: 'confirmed', wsEndpoint: await proxied(env('HYDRANT_WS_URL')) });
export const connection = new Connection(rpcUrl, rpcUrl.startsWith('https:') ? await overTls() : 'confirmed');
// web3.js keeps a finalized blockhash for 30 s, with slots of 400 ms in mind. At 100 ms it is over after 12 s: a flow
// on a slow machine would end with "Blockhash not found". The switch is the one that web3.js's own tests use.
connection._disableBlockhashCaching = true;
export const CONFIRMED = { commitment: 'confirmed', preflightCommitment: 'confirmed' };

export const payer = Keypair.generate();
export const alice = Keypair.generate();
export const bob = Keypair.generate();

// What is deployed first, and what it is upgraded to.
export const programElf = () => readFileSync(env('HYDRANT_PROGRAM_ELF'));
export const upgradeElf = () => readFileSync(env('HYDRANT_UPGRADE_ELF'));

// Lamports out of the faucet, confirmed the way the README of web3.js does it.
export async function airdrop(to, sol) {
  const latest = await connection.getLatestBlockhash();
  const signature = await connection.requestAirdrop(to, sol * LAMPORTS_PER_SOL);
  const { value } = await connection.confirmTransaction({ signature, ...latest }, 'confirmed');
  assert.equal(value.err, null);
  return signature;
}

export function send(instructions, signers) {
  return sendAndConfirmTransaction(connection, new Transaction().add(...instructions), signers, CONFIRMED);
}

// The transaction once it is in a block.
export function transactionOf(signature, commitment = 'confirmed') {
  return until(`transaction ${signature}`, () =>
    connection.getTransaction(signature, { commitment, maxSupportedTransactionVersion: 0 }),
  );
}

// Resolves once the node has a slot after `slot` at `commitment`.
export function slotAfter(slot, commitment = 'confirmed') {
  return until(`a ${commitment} slot after ${slot}`, async () => (await connection.getSlot(commitment)) > slot);
}

// Resolves once the node has answered everything asked on the socket so far: it answers in order.
export async function socketSettled() {
  const slots = new Inbox('slotSubscribe');
  const id = connection.onSlotChange((slot) => slots.push(slot));
  await slots.next();
  await connection.removeSlotChangeListener(id);
}
