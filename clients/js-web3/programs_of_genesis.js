// The other programs that everybody expects deployed: wrapped SOL, multisig, memo, stake.

import assert from 'node:assert/strict';
import {
  NATIVE_MINT,
  closeAccount,
  createAssociatedTokenAccount,
  createMint,
  createMultisig,
  createSyncNativeInstruction,
  createWrappedNativeAccount,
  freezeAccount,
  getAccount,
  mintTo,
  thawAccount,
} from '@solana/spl-token';
import {
  Authorized,
  ComputeBudgetProgram,
  Keypair,
  PublicKey,
  StakeProgram,
  SystemProgram,
  TransactionInstruction,
} from '@solana/web3.js';
import { until } from '../steps.js';
import { CONFIRMED, connection, payer, send, transactionOf } from './world.js';

const MEMO = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
const LAMPORTS = 1_000_000_000;

export function genesisProgramSteps(step) {
  step('programs: SOL is wrapped, synced and unwrapped', async () => {
    const { value: mint } = await connection.getParsedAccountInfo(NATIVE_MINT);
    assert.equal(mint.data.parsed.info.decimals, 9);
    const wrapped = await createWrappedNativeAccount(connection, payer, payer.publicKey, LAMPORTS, undefined, CONFIRMED);
    const more = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: wrapped, lamports: 7 });
    await send([more, createSyncNativeInstruction(wrapped)], [payer]);
    const account = await getAccount(connection, wrapped, 'confirmed');
    assert.equal(account.amount, BigInt(LAMPORTS + 7));
    assert.ok(account.isNative);
    await closeAccount(connection, payer, wrapped, payer.publicKey, payer, [], CONFIRMED);
  });

  step('programs: two of three mint, freeze and thaw', async () => {
    const three = [Keypair.generate(), Keypair.generate(), Keypair.generate()];
    const multisig = await createMultisig(connection, payer, three.map(({ publicKey }) => publicKey), 2, undefined, CONFIRMED);
    const mint = await createMint(connection, payer, multisig, multisig, 0, undefined, CONFIRMED);
    const account = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, CONFIRMED);
    await mintTo(connection, payer, mint, account, multisig, 10, three.slice(0, 2), CONFIRMED);
    await freezeAccount(connection, payer, account, mint, multisig, three.slice(1), CONFIRMED);
    assert.equal((await getAccount(connection, account, 'confirmed')).isFrozen, true);
    await thawAccount(connection, payer, account, mint, multisig, three.slice(1), CONFIRMED);
    const { value } = await connection.getParsedAccountInfo(multisig);
    assert.deepEqual([value.data.parsed.type, value.data.parsed.info.numRequiredSigners], ['multisig', 2]);
  });

  step('programs: a memo and a price, in history and in the fees', async () => {
    const signature = await send([
      ComputeBudgetProgram.setComputeUnitLimit({ units: 50_000 }),
      ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 200_000 }),
      new TransactionInstruction({ programId: MEMO, keys: [], data: Buffer.from('hello') }),
    ], [payer]);
    const { meta, slot } = await transactionOf(signature);
    assert.equal(meta.fee, 5_000 + 10_000);
    assert.ok(meta.logMessages.includes('Program log: Memo (len 5): "hello"'), meta.logMessages.join('\n'));
    const [listed] = await connection.getSignaturesForAddress(payer.publicKey, { limit: 1 }, 'confirmed');
    assert.deepEqual([listed.signature, listed.memo], [signature, '[5] hello']);
    const paid = await until('the price among the fees', async () => {
      const fees = await connection.getRecentPrioritizationFees({ lockedWritableAccounts: [payer.publicKey] });
      return fees.find((fee) => fee.slot === slot);
    });
    assert.equal(paid.prioritizationFee, 200_000);
  });

  step('programs: stake is delegated, deactivated and withdrawn', async () => {
    const stake = Keypair.generate();
    const { current } = await connection.getVoteAccounts();
    const keys = { stakePubkey: stake.publicKey, authorizedPubkey: payer.publicKey };
    await send(StakeProgram.createAccount({
      fromPubkey: payer.publicKey, stakePubkey: stake.publicKey,
      authorized: new Authorized(payer.publicKey, payer.publicKey), lamports: 2 * LAMPORTS,
    }).instructions, [payer, stake]);
    const delegate = StakeProgram.delegate({ ...keys, votePubkey: new PublicKey(current[0].votePubkey) });
    await send(delegate.instructions, [payer]);
    const { value } = await connection.getParsedAccountInfo(stake.publicKey);
    assert.equal(value.data.parsed.type, 'delegated');
    assert.equal(value.data.parsed.info.stake.delegation.voter, current[0].votePubkey);
    await send(StakeProgram.deactivate(keys).instructions, [payer]);
    await send(StakeProgram.withdraw({ ...keys, toPubkey: payer.publicKey, lamports: 2 * LAMPORTS }).instructions, [payer]);
    assert.equal(await connection.getAccountInfo(stake.publicKey), null);
  });
}
