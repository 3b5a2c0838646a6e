// Transactions that are not plain: failing ones, through a lookup table, simulated, with a nonce.

import assert from 'node:assert/strict';
import { createTransferInstruction } from '@solana/spl-token';
import {
  AddressLookupTableProgram,
  Connection,
  Keypair,
  NONCE_ACCOUNT_LENGTH,
  SendTransactionError,
  SystemProgram,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
  sendAndConfirmTransaction,
} from '@solana/web3.js';
import { until } from '../steps.js';
import { alice, bob, connection, payer, send, slotAfter, transactionOf } from './world.js';

const toBob = (lamports) => SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: bob.publicKey, lamports });

// web3.js makes an Error of what the socket tells, and throws what it finds by its own question as it is:
// an object without message. The socket has to be first.
const errorOf = async (confirmation) => (await confirmation).value.err;

export function failingSteps(step, token) {
  // Bob's account has 350 of the token, and Alice's account is closed. A transfer of more than that to itself fails.
  const tooMuch = () => createTransferInstruction(token.bobAccount, token.bobAccount, bob.publicKey, 351n);
  const decoded = { InstructionError: [0, { Custom: 1 }] };

  step('failing: preflight refuses with the decoded error and the logs', async () => {
    const refused = send([tooMuch()], [payer, bob]);
    await assert.rejects(refused, (error) => {
      assert.ok(error instanceof SendTransactionError, error.stack);
      assert.match(error.transactionError.message, /custom program error: 0x1$/);
      assert.ok(error.logs.some((line) => line.includes('insufficient funds')), error.logs.join('\n'));
      return true;
    });
  });

  step('failing: without preflight each of twenty is an Error that names its signature', async () => {
    for (let n = 1; n <= 20; n += 1) {
      const transaction = new Transaction().add(toBob(BigInt(n) * 1_000_000_000_000n));
      const options = { commitment: 'confirmed', skipPreflight: true };
      await assert.rejects(sendAndConfirmTransaction(connection, transaction, [payer], options), (error) => {
        assert.ok(error instanceof SendTransactionError, `${n}: ${JSON.stringify(error)}`);
        assert.match(error.message, /Transaction \w+ resulted in an error/);
        assert.match(error.message, /"Custom":1/);
        return true;
      });
    }
  });

  step('failing: without preflight it lands with its error, and the fee is paid', async () => {
    const before = await connection.getBalance(payer.publicKey);
    const latest = await connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: payer.publicKey, ...latest }).add(tooMuch());
    const signature = await connection.sendTransaction(transaction, [payer, bob], { skipPreflight: true });
    assert.deepEqual(await errorOf(connection.confirmTransaction({ signature, ...latest })), decoded);
    const landed = await transactionOf(signature);
    assert.deepEqual(landed.meta.err, decoded);
    assert.equal(landed.meta.fee, 10_000);
    assert.ok(landed.meta.logMessages.some((line) => line.includes('insufficient funds')));
    assert.equal(await connection.getBalance(payer.publicKey), before - 10_000);
    const [listed] = await connection.getSignaturesForAddress(token.bobAccount, { limit: 1 }, 'confirmed');
    assert.deepEqual([listed.signature, listed.err], [signature, decoded]);
  });

  step('failing: a stale blockhash and a missing signature are refused', async () => {
    const stale = new Transaction({ feePayer: payer.publicKey, blockhash: Keypair.generate().publicKey.toBase58(), lastValidBlockHeight: 1 });
    stale.add(toBob(1)).sign(payer);
    await assert.rejects(connection.sendRawTransaction(stale.serialize()), /Blockhash not found/);
    const latest = await connection.getLatestBlockhash();
    const unsigned = new Transaction({ feePayer: payer.publicKey, ...latest }).add(toBob(1));
    const wire = unsigned.serialize({ requireAllSignatures: false, verifySignatures: false });
    await assert.rejects(connection.sendRawTransaction(wire), /did not pass signature verification/);
  });
}

export function orderSteps(step) {
  step('order: without a commitment a transfer is final when it is confirmed', async () => {
    const plain = new Connection(connection.rpcEndpoint, { wsEndpoint: connection._rpcWsEndpoint });
    plain._disableBlockhashCaching = true;
    const to = Keypair.generate().publicKey;
    const transfer = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports: 10_000_000 });
    await sendAndConfirmTransaction(plain, new Transaction().add(transfer), [payer]);
    assert.equal(await plain.getBalance(to), 10_000_000);
  });

  step('order: a transaction that was sent before its payer was funded lands', async () => {
    const poor = Keypair.generate();
    const latest = await connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: poor.publicKey, ...latest });
    transaction.add(SystemProgram.transfer({ fromPubkey: poor.publicKey, toPubkey: bob.publicKey, lamports: 1_000_000 }));
    const signature = await connection.sendTransaction(transaction, [poor], { skipPreflight: true });
    await send([SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: poor.publicKey, lamports: 10_000_000 })], [payer]);
    assert.equal((await transactionOf(signature)).meta.err, null);
  });
}

export function versionedSteps(step, kept) {
  const targets = Array.from({ length: 4 }, () => Keypair.generate().publicKey);

  step('lookup table: create and extend', async () => {
    const recentSlot = await connection.getSlot('finalized');
    const [create, table] = AddressLookupTableProgram.createLookupTable({
      authority: payer.publicKey, payer: payer.publicKey, recentSlot,
    });
    const extend = AddressLookupTableProgram.extendLookupTable({
      authority: payer.publicKey, payer: payer.publicKey, lookupTable: table, addresses: targets,
    });
    const { slot } = await transactionOf(await send([create, extend], [payer]));
    kept.table = (await connection.getAddressLookupTable(table)).value;
    assert.deepEqual(kept.table.state.addresses.map(String), targets.map(String));
    assert.ok(kept.table.state.authority.equals(payer.publicKey));
    // Addresses can be used from the slot after the one that added them.
    await slotAfter(slot);
  });

  step('lookup table: a version 0 transaction takes its accounts from it', async () => {
    const latest = await connection.getLatestBlockhash();
    const message = new TransactionMessage({
      payerKey: payer.publicKey,
      recentBlockhash: latest.blockhash,
      instructions: targets.map((toPubkey) => SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports: 1_000_000 })),
    }).compileToV0Message([kept.table]);
    assert.equal(message.addressTableLookups[0].writableIndexes.length, targets.length);
    const transaction = new VersionedTransaction(message);
    transaction.sign([payer]);
    const fee = await connection.getFeeForMessage(message, 'confirmed');
    assert.equal(fee.value, 5_000);
    kept.versioned = await connection.sendTransaction(transaction);
    const { value } = await connection.confirmTransaction({ signature: kept.versioned, ...latest });
    assert.equal(value.err, null);
    for (const target of targets) assert.equal(await connection.getBalance(target), 1_000_000);
  });

  step('lookup table: history names the loaded addresses, and wants the version allowed', async () => {
    const landed = await transactionOf(kept.versioned);
    assert.equal(landed.version, 0);
    assert.deepEqual(landed.meta.loadedAddresses.writable.map(String), targets.map(String));
    assert.deepEqual(landed.meta.loadedAddresses.readonly, []);
    const keys = landed.transaction.message.getAccountKeys({ accountKeysFromLookups: landed.meta.loadedAddresses });
    assert.equal(keys.length, landed.meta.postBalances.length);
    await assert.rejects(connection.getTransaction(kept.versioned, { commitment: 'confirmed' }), /Transaction version \(0\) is not supported/);
    const [listed] = await connection.getSignaturesForAddress(targets[0], {}, 'confirmed');
    assert.equal(listed.signature, kept.versioned, 'an address that only the table names is found too');
  });

  step('simulate: accounts after, inner instructions, another blockhash', async () => {
    const message = new TransactionMessage({
      payerKey: payer.publicKey,
      recentBlockhash: Keypair.generate().publicKey.toBase58(),
      instructions: [toBob(123)],
    }).compileToV0Message();
    const before = await connection.getBalance(bob.publicKey);
    const { value } = await connection.simulateTransaction(new VersionedTransaction(message), {
      replaceRecentBlockhash: true,
      innerInstructions: true,
      accounts: { encoding: 'base64', addresses: [bob.publicKey.toBase58()] },
    });
    assert.equal(value.err, null);
    assert.equal(value.unitsConsumed, 150);
    assert.equal(value.accounts[0].lamports, before + 123);
    assert.ok(value.logs.includes(`Program ${SystemProgram.programId} success`));
    assert.equal(await connection.getBalance(bob.publicKey), before, 'nothing was written');

    const refused = await connection.simulateTransaction(new VersionedTransaction(message), { sigVerify: false });
    assert.equal(refused.value.err, 'BlockhashNotFound');
  });
}

export function nonceSteps(step) {
  const nonceKey = Keypair.generate();
  const advance = () => SystemProgram.nonceAdvance({ noncePubkey: nonceKey.publicKey, authorizedPubkey: payer.publicKey });
  const withNonce = async (lamports) => {
    const { context, value } = await connection.getNonceAndContext(nonceKey.publicKey);
    const transaction = new Transaction({
      feePayer: payer.publicKey,
      minContextSlot: context.slot,
      nonceInfo: { nonce: value.nonce, nonceInstruction: advance() },
    }).add(SystemProgram.transfer({ fromPubkey: alice.publicKey, toPubkey: bob.publicKey, lamports }));
    const signature = await connection.sendTransaction(transaction, [payer, alice], { skipPreflight: true });
    const confirmation = connection.confirmTransaction({
      signature, minContextSlot: context.slot, nonceAccountPubkey: nonceKey.publicKey, nonceValue: value.nonce,
    });
    return { err: await errorOf(confirmation), used: value.nonce };
  };
  const nonceAfter = (used) =>
    until('the nonce to advance', async () => {
      const { nonce } = await connection.getNonce(nonceKey.publicKey);
      return nonce !== used && nonce;
    });

  step('nonce: create the account', async () => {
    const lamports = await connection.getMinimumBalanceForRentExemption(NONCE_ACCOUNT_LENGTH);
    const create = SystemProgram.createNonceAccount({
      fromPubkey: payer.publicKey, noncePubkey: nonceKey.publicKey, authorizedPubkey: payer.publicKey, lamports,
    });
    const { slot } = await transactionOf(await send([create], [payer, nonceKey]));
    const nonce = await connection.getNonce(nonceKey.publicKey);
    assert.ok(nonce.authorizedPubkey.equals(payer.publicKey));
    // A nonce advances to another value only in a later block than the one that set it.
    await slotAfter(slot);
  });

  step('nonce: a transaction on it lands and advances it', async () => {
    const { err, used } = await withNonce(1_000);
    assert.equal(err, null);
    const now = await nonceAfter(used);
    await slotAfter(await connection.getSlot());
    assert.notEqual(now, used);
  });

  step('nonce: a failing transaction on it advances it too', async () => {
    const { err, used } = await withNonce(1_000_000_000_000_000);
    assert.deepEqual(err, { InstructionError: [1, { Custom: 1 }] });
    await nonceAfter(used);
  });
}
