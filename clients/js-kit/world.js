// What every step shares: the two halves of the RPC, the signers, and how a transaction is sent.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import {
  airdropFactory,
  appendTransactionMessageInstructions,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createSolanaRpcSubscriptions_UNSTABLE,
  createTransactionMessage,
  generateKeyPairSigner,
  getSignatureFromTransaction,
  lamports,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit';
import { Inbox, env, until } from '../steps.js';

export const rpc = createSolanaRpc(env('HYDRANT_RPC_URL'));
export const rpcSubscriptions = createSolanaRpcSubscriptions(env('HYDRANT_WS_URL'));
// Blocks, votes and slot updates: what kit calls unstable.
export const unstable = createSolanaRpcSubscriptions_UNSTABLE(env('HYDRANT_WS_URL'));
const listening = new Set();

export const sol = (amount) => lamports(BigInt(amount) * 1_000_000_000n);
export const airdrop = airdropFactory({ rpc, rpcSubscriptions });
export const sendAndConfirm = sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions });
export const CONFIRMED = { commitment: 'confirmed' };

export const [payer, alice, bob] = await Promise.all([generateKeyPairSigner(), generateKeyPairSigner(), generateKeyPairSigner()]);

// What is deployed first, and what it is upgraded to.
export const programElf = () => readFileSync(env('HYDRANT_PROGRAM_ELF'));
export const upgradeElf = () => readFileSync(env('HYDRANT_UPGRADE_ELF'));

export async function messageOf(instructions, version = 0) {
  const { value: latest } = await rpc.getLatestBlockhash(CONFIRMED).send();
  return pipe(
    createTransactionMessage({ version }),
    (message) => setTransactionMessageFeePayerSigner(payer, message),
    (message) => setTransactionMessageLifetimeUsingBlockhash(latest, message),
    (message) => appendTransactionMessageInstructions(instructions, message),
  );
}

export async function signed(instructions, version) {
  return signTransactionMessageWithSigners(await messageOf(instructions, version));
}

// The signature, once the transaction is confirmed.
export async function send(instructions, version) {
  const transaction = await signed(instructions, version);
  await sendAndConfirm(transaction, { commitment: 'confirmed', preflightCommitment: 'confirmed' });
  return getSignatureFromTransaction(transaction);
}

export function transactionOf(signature, config = {}) {
  return until(`transaction ${signature}`, () =>
    rpc.getTransaction(signature, { commitment: 'confirmed', encoding: 'json', maxSupportedTransactionVersion: 0, ...config }).send(),
  );
}

export function slotAfter(slot, commitment = 'confirmed') {
  return until(`a ${commitment} slot after ${slot}`, async () => (await rpc.getSlot({ commitment }).send()) > slot);
}

// Subscribes, waits until the node has answered, and collects what comes.
export async function listen(what, pending) {
  const abort = new AbortController();
  const inbox = new Inbox(what);
  const stop = () => { listening.delete(abort); abort.abort(); };
  listening.add(abort);
  const items = await pending.subscribe({ abortSignal: abort.signal });
  const reading = (async () => {
    for await (const item of items) inbox.push(item);
  })();
  // A broken stream fails the next wait on this inbox; an aborted one just ends.
  reading.catch((error) => { if (!abort.signal.aborted) inbox.push({ broken: String(error) }); });
  return Object.assign(inbox, { stop });
}

export const stopListening = async () => listening.forEach((abort) => abort.abort());

// kit gives every integer as bigint but a few; comparing as plain JSON leaves that aside.
export function same(actual, expected, message) {
  const plain = (value) => JSON.parse(JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? Number(v) : v)));
  assert.deepEqual(plain(actual), plain(expected), message);
}
