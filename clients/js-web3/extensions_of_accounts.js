// Extensions of token accounts: required memos, the CPI guard, an owner for good; room for them made later.

import assert from 'node:assert/strict';
import {
  ExtensionType,
  createCloseAccountInstruction,
  createInitializeAccount3Instruction,
  createInitializeImmutableOwnerInstruction,
  createReallocateInstruction,
  createTransferCheckedInstruction,
  disableCpiGuard,
  disableRequiredMemoTransfers,
  enableCpiGuard,
  enableRequiredMemoTransfers,
  getAccountLen,
  getCpiGuard,
  getImmutableOwner,
  getMemoTransfer,
  setAuthority,
  AuthorityType,
} from '@solana/spl-token';
import { Keypair, PublicKey, SystemProgram, TransactionInstruction } from '@solana/web3.js';
import { DECIMALS, LAST, PROGRAM, accountWith, createMintWith, parsedExtension, readAccount, refused } from './token_2022.js';
import { alice, bob, connection, payer, send, transactionOf } from './world.js';

const MEMO = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
const NO_MEMO = 36;
const IMMUTABLE_OWNER = 34;

export function accountExtensionSteps(step) {
  let mint, source, target;
  const transfer = (amount) => createTransferCheckedInstruction(source, mint, target, alice.publicKey, amount, DECIMALS, [], PROGRAM);
  const memo = (text) => new TransactionInstruction({ programId: MEMO, keys: [], data: Buffer.from(text) });

  step('accounts: room for extensions is made later', async () => {
    mint = await createMintWith([], () => []);
    [source, target] = [await accountWith(mint, alice, 1_000n), await accountWith(mint, bob)];
    const before = (await connection.getAccountInfo(target)).data.length;
    const extensions = [ExtensionType.MemoTransfer, ExtensionType.CpiGuard];
    await send([createReallocateInstruction(target, payer.publicKey, extensions, bob.publicKey, [], PROGRAM)], [payer, bob]);
    assert.ok((await connection.getAccountInfo(target)).data.length > before);
    assert.ok(getImmutableOwner(await readAccount(target)), 'associated accounts have an owner for good');
  });

  step('accounts: a transfer without the memo that is required is refused', async () => {
    await enableRequiredMemoTransfers(connection, payer, target, bob, [], ...LAST);
    assert.equal(getMemoTransfer(await readAccount(target)).requireIncomingTransferMemos, true);
    assert.deepEqual(await parsedExtension(target, 'memoTransfer'), { requireIncomingTransferMemos: true });
    await refused(send([transfer(10n)], [payer, alice]), NO_MEMO, 'No memo in previous instruction');
    const signature = await send([memo('rent for May'), transfer(10n)], [payer, alice]);
    assert.equal((await readAccount(target)).amount, 10n);
    const [listed] = await connection.getSignaturesForAddress(target, { limit: 1 }, 'confirmed');
    assert.deepEqual([listed.signature, listed.memo], [signature, '[12] rent for May']);
    await disableRequiredMemoTransfers(connection, payer, target, bob, [], ...LAST);
    await send([transfer(10n)], [payer, alice]);
    assert.equal((await readAccount(target)).amount, 20n);
  });

  step('accounts: the CPI guard is set and lifted', async () => {
    await enableCpiGuard(connection, payer, target, bob, [], ...LAST);
    assert.equal(getCpiGuard(await readAccount(target)).lockCpi, true);
    assert.deepEqual(await parsedExtension(target, 'cpiGuard'), { lockCpi: true });
    await disableCpiGuard(connection, payer, target, bob, [], ...LAST);
    assert.equal(getCpiGuard(await readAccount(target)).lockCpi, false);
  });

  step('accounts: an owner for good stays the owner, and may close the account', async () => {
    const account = Keypair.generate();
    const space = getAccountLen([ExtensionType.ImmutableOwner]);
    await send([
      SystemProgram.createAccount({
        fromPubkey: payer.publicKey, newAccountPubkey: account.publicKey, space, programId: PROGRAM,
        lamports: await connection.getMinimumBalanceForRentExemption(space),
      }),
      createInitializeImmutableOwnerInstruction(account.publicKey, PROGRAM),
      createInitializeAccount3Instruction(account.publicKey, mint, alice.publicKey, PROGRAM),
    ], [payer, account]);
    const give = setAuthority(connection, payer, account.publicKey, alice, AuthorityType.AccountOwner, bob.publicKey, [], ...LAST);
    await refused(give, IMMUTABLE_OWNER, 'The owner authority cannot be changed');
    const close = createCloseAccountInstruction(account.publicKey, payer.publicKey, alice.publicKey, [], PROGRAM);
    const { meta } = await transactionOf(await send([close], [payer, alice]));
    assert.equal(meta.err, null);
    assert.equal(await connection.getAccountInfo(account.publicKey), null);
  });
}
