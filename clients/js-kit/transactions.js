// Transactions that are not plain: failing ones, through a lookup table, simulated, with a nonce.

import assert from 'node:assert/strict';
import {
  SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM,
  SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE,
  SOLANA_ERROR__JSON_RPC__SERVER_ERROR_UNSUPPORTED_TRANSACTION_VERSION,
  SOLANA_ERROR__TRANSACTION_ERROR__BLOCKHASH_NOT_FOUND,
  appendTransactionMessageInstructions,
  compileTransaction,
  compressTransactionMessageUsingAddressLookupTables,
  createTransactionMessage,
  fetchAddressesForLookupTables,
  generateKeyPairSigner,
  getBase64Decoder,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  isSolanaError,
  lamports,
  pipe,
  sendAndConfirmDurableNonceTransactionFactory,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLifetimeUsingDurableNonce,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  signTransactionMessageWithSigners,
} from '@solana/kit';
import {
  fetchAddressLookupTable,
  findAddressLookupTablePda,
  getCreateLookupTableInstructionAsync,
  getExtendLookupTableInstruction,
} from '@solana-program/address-lookup-table';
import {
  SYSTEM_ERROR__RESULT_WITH_NEGATIVE_LAMPORTS,
  SYSTEM_PROGRAM_ADDRESS,
  fetchNonce,
  getCreateAccountInstruction,
  getInitializeNonceAccountInstruction,
  getNonceSize,
  getTransferSolInstruction,
  isSystemError,
} from '@solana-program/system';
import { TOKEN_ERROR__INSUFFICIENT_FUNDS, getTransferInstruction, isTokenError } from '@solana-program/token';
import { until } from '../steps.js';
import {
  CONFIRMED, alice, bob, messageOf, payer, rpc, rpcSubscriptions, same, send, sendAndConfirm, signed, slotAfter, transactionOf,
} from './world.js';

const toBob = (amount, source = payer) =>
  getTransferSolInstruction({ source, destination: bob.address, amount: lamports(BigInt(amount)) });

export function failingSteps(step, token) {
  // Bob's account has 350 of the token. A transfer of more than that to itself fails.
  const tooMuch = () => getTransferInstruction({ source: token.bobAccount, destination: token.bobAccount, authority: bob, amount: 351n });
  const decoded = { InstructionError: [0, { Custom: 1 }] };

  step('failing: preflight refuses with the decoded error and the logs', async () => {
    const message = await messageOf([tooMuch()]);
    const transaction = await signTransactionMessageWithSigners(message);
    await assert.rejects(sendAndConfirm(transaction, CONFIRMED), (error) => {
      assert.ok(isSolanaError(error, SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE), error.stack);
      assert.ok(isSolanaError(error.cause, SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM), String(error.cause));
      assert.equal(error.cause.context.code, 1);
      assert.ok(isTokenError(error.cause, message, TOKEN_ERROR__INSUFFICIENT_FUNDS));
      assert.ok(error.context.logs.some((line) => line.includes('insufficient funds')));
      return true;
    });
  });

  step('failing: without preflight it lands with its error, and the fee is paid', async () => {
    const { value: before } = await rpc.getBalance(payer.address, CONFIRMED).send();
    const transaction = await signed([tooMuch()]);
    const signature = getSignatureFromTransaction(transaction);
    await assert.rejects(sendAndConfirm(transaction, { ...CONFIRMED, skipPreflight: true }), (error) =>
      isSolanaError(error, SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM) || isSolanaError(error.cause, SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM));
    const { meta } = await transactionOf(signature);
    same(meta.err, decoded);
    assert.equal(meta.fee, 10_000n);
    const { value: after } = await rpc.getBalance(payer.address, CONFIRMED).send();
    assert.equal(after, before - 10_000n);
    const [listed] = await rpc.getSignaturesForAddress(token.bobAccount, { ...CONFIRMED, limit: 1 }).send();
    assert.equal(listed.signature, signature);
    same(listed.err, decoded);
  });

  step('failing: a stale blockhash is refused', async () => {
    const stale = await signTransactionMessageWithSigners(pipe(
      createTransactionMessage({ version: 0 }),
      (message) => setTransactionMessageFeePayerSigner(payer, message),
      (message) => setTransactionMessageLifetimeUsingBlockhash({ blockhash: token.mint, lastValidBlockHeight: 1n << 60n }, message),
      (message) => appendTransactionMessageInstructions([toBob(1)], message),
    ));
    await assert.rejects(sendAndConfirm(stale, CONFIRMED), (error) =>
      isSolanaError(error.cause, SOLANA_ERROR__TRANSACTION_ERROR__BLOCKHASH_NOT_FOUND));
  });
}

export function versionedSteps(step, kept) {
  step('lookup table: create and extend', async () => {
    kept.targets = await Promise.all(Array.from({ length: 4 }, async () => (await generateKeyPairSigner()).address));
    const recentSlot = await rpc.getSlot({ commitment: 'finalized' }).send();
    [kept.table] = await findAddressLookupTablePda({ authority: payer.address, recentSlot });
    const signature = await send([
      await getCreateLookupTableInstructionAsync({ authority: payer.address, payer, recentSlot }),
      getExtendLookupTableInstruction({ address: kept.table, authority: payer, payer, addresses: kept.targets }),
    ]);
    const { data } = await fetchAddressLookupTable(rpc, kept.table, CONFIRMED);
    assert.deepEqual(data.addresses, kept.targets);
    // Addresses can be used from the slot after the one that added them.
    await slotAfter((await transactionOf(signature)).slot);
  });

  step('lookup table: a version 0 transaction takes its accounts from it', async () => {
    const tables = await fetchAddressesForLookupTables([kept.table], rpc, CONFIRMED);
    const transfers = kept.targets.map((destination) =>
      getTransferSolInstruction({ source: payer, destination, amount: lamports(1_000_000n) }));
    const message = compressTransactionMessageUsingAddressLookupTables(await messageOf(transfers), tables);
    const compiled = compileTransaction(message);
    const { value: fee } = await rpc.getFeeForMessage(getBase64Decoder().decode(compiled.messageBytes), CONFIRMED).send();
    assert.equal(fee, 5_000n);
    const transaction = await signTransactionMessageWithSigners(message);
    await sendAndConfirm(transaction, CONFIRMED);
    kept.versioned = getSignatureFromTransaction(transaction);
    for (const target of kept.targets) assert.equal((await rpc.getBalance(target, CONFIRMED).send()).value, 1_000_000n);
  });

  step('lookup table: history names the loaded addresses, and wants the version allowed', async () => {
    const landed = await transactionOf(kept.versioned);
    assert.equal(landed.version, 0);
    // kit puts the indexes into the message in the order of the addresses.
    const sorted = [...kept.targets].sort();
    assert.deepEqual([...landed.meta.loadedAddresses.writable].sort(), sorted);
    assert.deepEqual(landed.meta.loadedAddresses.readonly, []);
    const parsed = await transactionOf(kept.versioned, { encoding: 'jsonParsed' });
    const looked = parsed.transaction.message.accountKeys.filter(({ source }) => source === 'lookupTable');
    assert.deepEqual(looked.map(({ pubkey }) => pubkey).sort(), sorted);
    await assert.rejects(rpc.getTransaction(kept.versioned, { ...CONFIRMED, encoding: 'json' }).send(), (error) =>
      isSolanaError(error, SOLANA_ERROR__JSON_RPC__SERVER_ERROR_UNSUPPORTED_TRANSACTION_VERSION));
  });

  step('version 1: a transaction that states its limits', async () => {
    const message = pipe(
      await messageOf([toBob(1_000_002)], 1),
      (it) => setTransactionMessageComputeUnitLimit(1_000, it),
      (it) => setTransactionMessageLoadedAccountsDataSizeLimit(10_000, it),
    );
    const transaction = await signTransactionMessageWithSigners(message);
    await sendAndConfirm(transaction, CONFIRMED);
    const signature = getSignatureFromTransaction(transaction);
    const landed = await transactionOf(signature, { maxSupportedTransactionVersion: 1 });
    assert.deepEqual([landed.version, landed.meta.err, landed.meta.fee], [1, null, 5_000n]);
  });

  step('simulate: accounts after, another blockhash, nothing written', async () => {
    const { value: before } = await rpc.getBalance(bob.address, CONFIRMED).send();
    const wire = getBase64EncodedWireTransaction(await signed([toBob(123)]));
    const { value } = await rpc.simulateTransaction(wire, {
      ...CONFIRMED, encoding: 'base64', replaceRecentBlockhash: true, innerInstructions: true,
      accounts: { encoding: 'base64', addresses: [bob.address] },
    }).send();
    assert.equal(value.err, null);
    assert.equal(value.unitsConsumed, 150n);
    assert.equal(value.accounts[0].lamports, before + 123n);
    assert.ok(value.replacementBlockhash.lastValidBlockHeight > 0n);
    assert.deepEqual(value.innerInstructions, []);
    const verified = await rpc.simulateTransaction(wire, { ...CONFIRMED, encoding: 'base64', sigVerify: true }).send();
    assert.equal(verified.value.err, null);
    assert.equal((await rpc.getBalance(bob.address, CONFIRMED).send()).value, before);
  });
}

export function nonceSteps(step) {
  const sendOnNonce = sendAndConfirmDurableNonceTransactionFactory({ rpc, rpcSubscriptions });
  const kept = {};
  const nonce = async () => (await fetchNonce(rpc, kept.nonce, CONFIRMED)).data.blockhash;
  const onNonce = async (instruction) => {
    kept.used = await nonce();
    const message = pipe(
      createTransactionMessage({ version: 0 }),
      (it) => setTransactionMessageFeePayerSigner(payer, it),
      (it) => setTransactionMessageLifetimeUsingDurableNonce(
        { nonce: kept.used, nonceAccountAddress: kept.nonce, nonceAuthorityAddress: payer.address }, it),
      (it) => appendTransactionMessageInstructions([instruction], it),
    );
    return { message, transaction: await signTransactionMessageWithSigners(message) };
  };
  const advanced = () => until('the nonce to advance', async () => (await nonce()) !== kept.used);

  step('nonce: create the account', async () => {
    const account = await generateKeyPairSigner();
    kept.nonce = account.address;
    const space = BigInt(getNonceSize());
    const signature = await send([
      getCreateAccountInstruction({
        payer, newAccount: account, space, programAddress: SYSTEM_PROGRAM_ADDRESS,
        lamports: await rpc.getMinimumBalanceForRentExemption(space).send(),
      }),
      getInitializeNonceAccountInstruction({ nonceAccount: account.address, nonceAuthority: payer.address }),
    ]);
    // A nonce advances to another value only in a later block than the one that set it.
    await slotAfter((await transactionOf(signature)).slot);
  });

  step('nonce: a transaction on it lands and advances it', async () => {
    const { transaction } = await onNonce(toBob(1_000, alice));
    await sendOnNonce(transaction, CONFIRMED);
    await advanced();
    await slotAfter(await rpc.getSlot(CONFIRMED).send());
  });

  step('nonce: a failing transaction on it advances it too', async () => {
    const { message, transaction } = await onNonce(toBob(1_000_000_000_000_000n, alice));
    await assert.rejects(sendOnNonce(transaction, { ...CONFIRMED, skipPreflight: true }), (error) =>
      [error, error.cause].some((each) => isSystemError(each, message, SYSTEM_ERROR__RESULT_WITH_NEGATIVE_LAMPORTS)));
    await advanced();
    const { meta } = await transactionOf(getSignatureFromTransaction(transaction));
    same(meta.err, { InstructionError: [1, { Custom: 1 }] });
  });
}
