// Extensions of mints: frozen by default, no transfers, a delegate for all, interest, a scale, a pause, metadata, groups.

import assert from 'node:assert/strict';
import {
  AccountState,
  ExtensionType,
  amountToUiAmount,
  closeAccount,
  createInitializeDefaultAccountStateInstruction,
  createInitializeGroupPointerInstruction,
  createInitializeMetadataPointerInstruction,
  createInitializeMintCloseAuthorityInstruction,
  createInitializeNonTransferableMintInstruction,
  createInitializePausableConfigInstruction,
  createInitializePermanentDelegateInstruction,
  createInitializeScaledUiAmountConfigInstruction,
  createInterestBearingMint,
  getDefaultAccountState,
  getInterestBearingMintConfigState,
  getPausableConfig,
  getTokenGroupState,
  getTokenMetadata,
  pause,
  resume,
  thawAccount,
  tokenGroupInitializeGroupWithRentTransfer,
  tokenMetadataInitializeWithRentTransfer,
  tokenMetadataRemoveKey,
  tokenMetadataUpdateFieldWithRentTransfer,
  transferChecked,
  updateDefaultAccountState,
  updateRateInterestBearingMint,
} from '@solana/spl-token';
import { DECIMALS, LAST, PROGRAM, accountWith, createMintWith, parsedExtension, readAccount, readMint, refused } from './token_2022.js';
import { alice, bob, connection, payer } from './world.js';

const ACCOUNT_FROZEN = 17;
const NON_TRANSFERABLE = 37;
const MINT_PAUSED = 67;

// A transfer between two accounts of a mint.
const move = (mint, source, target, authority, amount) =>
  transferChecked(connection, payer, source, mint, target, authority, amount, DECIMALS, [], ...LAST);

export function mintExtensionSteps(step) {
  step('mints: accounts are frozen until they are thawed', async () => {
    const mint = await createMintWith([ExtensionType.DefaultAccountState], (key) => [
      createInitializeDefaultAccountStateInstruction(key, AccountState.Frozen, PROGRAM),
    ], { freezeAuthority: payer.publicKey });
    const account = await accountWith(mint, alice);
    assert.equal((await readAccount(account)).isFrozen, true);
    await refused(move(mint, account, account, alice, 0n), ACCOUNT_FROZEN, 'Account is frozen');
    await thawAccount(connection, payer, account, mint, payer, [], ...LAST);
    await updateDefaultAccountState(connection, payer, mint, AccountState.Initialized, payer, [], ...LAST);
    assert.equal(getDefaultAccountState(await readMint(mint)).state, AccountState.Initialized);
    assert.equal((await readAccount(await accountWith(mint, bob))).isFrozen, false);
  });

  step('mints: what cannot be transferred, a delegate can burn or take all the same', async () => {
    const soulbound = await createMintWith([ExtensionType.NonTransferable], (key) => [
      createInitializeNonTransferableMintInstruction(key, PROGRAM),
    ]);
    const [mine, other] = [await accountWith(soulbound, alice, 1n), await accountWith(soulbound, bob)];
    await refused(move(soulbound, mine, other, alice, 1n), NON_TRANSFERABLE, 'Transfer is disabled for this mint');

    const watched = await createMintWith([ExtensionType.PermanentDelegate], (key) => [
      createInitializePermanentDelegateInstruction(key, payer.publicKey, PROGRAM),
    ]);
    const [source, target] = [await accountWith(watched, alice, 50n), await accountWith(watched, bob)];
    await move(watched, source, target, payer, 50n);
    assert.equal((await readAccount(target)).amount, 50n);
    assert.deepEqual(await parsedExtension(watched, 'permanentDelegate'), { delegate: payer.publicKey.toBase58() });
  });

  step('mints: a mint is closed by its authority once nothing of it is left', async () => {
    const mint = await createMintWith([ExtensionType.MintCloseAuthority], (key) => [
      createInitializeMintCloseAuthorityInstruction(key, bob.publicKey, PROGRAM),
    ]);
    await closeAccount(connection, payer, mint, payer.publicKey, bob, [], ...LAST);
    assert.equal(await connection.getAccountInfo(mint), null);
  });

  step('mints: interest shows in amounts, as the program and as the node compute them', async () => {
    const mint = await createInterestBearingMint(
      connection, payer, payer.publicKey, payer.publicKey, payer.publicKey, 32_767, DECIMALS, undefined, ...LAST,
    );
    const account = await accountWith(mint, alice, 1_000_000_000_000n);
    const amount = Number(await amountToUiAmount(connection, payer, mint, 1_000_000_000_000n, PROGRAM));
    const { value } = await connection.getTokenAccountBalance(account);
    assert.ok(amount >= 10_000_000_000 && Number(value.uiAmountString) >= 10_000_000_000, `${amount} ${value.uiAmountString}`);
    await updateRateInterestBearingMint(connection, payer, mint, payer, 10, [], ...LAST);
    const { currentRate, preUpdateAverageRate } = getInterestBearingMintConfigState(await readMint(mint));
    assert.deepEqual([currentRate, preUpdateAverageRate], [10, 32_767]);
    assert.equal((await parsedExtension(mint, 'interestBearingConfig')).currentRate, 10);
  });

  step('mints: a scale shows in amounts', async () => {
    const mint = await createMintWith([ExtensionType.ScaledUiAmountConfig], (key) => [
      createInitializeScaledUiAmountConfigInstruction(key, payer.publicKey, 2.5, PROGRAM),
    ]);
    const account = await accountWith(mint, alice, 1_000n);
    const { value } = await connection.getTokenAccountBalance(account);
    assert.deepEqual([value.amount, value.uiAmountString], ['1000', '25']);
    assert.equal(await amountToUiAmount(connection, payer, mint, 1_000n, PROGRAM), '25');
    const { value: supply } = await connection.getTokenSupply(mint);
    assert.equal(supply.uiAmountString, '25');
  });

  step('mints: transfers are paused and resumed', async () => {
    const mint = await createMintWith([ExtensionType.PausableConfig], (key) => [
      createInitializePausableConfigInstruction(key, payer.publicKey, PROGRAM),
    ]);
    const [source, target] = [await accountWith(mint, alice, 5n), await accountWith(mint, bob)];
    await pause(connection, payer, mint, payer, [], ...LAST);
    assert.equal(getPausableConfig(await readMint(mint)).paused, true);
    await refused(move(mint, source, target, alice, 5n), MINT_PAUSED, 'burning is paused on this mint');
    await resume(connection, payer, mint, payer, [], ...LAST);
    await move(mint, source, target, alice, 5n);
    assert.equal((await readAccount(target)).amount, 5n);
  });

  step('mints: metadata is written to the mint, changed, and read back', async () => {
    const mint = await createMintWith([ExtensionType.MetadataPointer], (key) => [
      createInitializeMetadataPointerInstruction(key, payer.publicKey, key, PROGRAM),
    ]);
    await tokenMetadataInitializeWithRentTransfer(
      connection, payer, mint, payer.publicKey, payer, 'Opossum', 'OPOS', 'https://example.invalid/o.json', [], ...LAST,
    );
    await tokenMetadataUpdateFieldWithRentTransfer(connection, payer, mint, payer, 'colour', 'grey', [], ...LAST);
    const { name, symbol, additionalMetadata } = await getTokenMetadata(connection, mint, 'confirmed', PROGRAM);
    assert.deepEqual([name, symbol, additionalMetadata], ['Opossum', 'OPOS', [['colour', 'grey']]]);
    const parsed = await parsedExtension(mint, 'tokenMetadata');
    assert.deepEqual([parsed.name, parsed.additionalMetadata], ['Opossum', [['colour', 'grey']]]);
    await tokenMetadataRemoveKey(connection, payer, mint, payer, 'colour', false, [], ...LAST);
    assert.deepEqual((await getTokenMetadata(connection, mint, 'confirmed', PROGRAM)).additionalMetadata, []);
  });

  step('mints: a group is written to the mint', async () => {
    const mint = await createMintWith([ExtensionType.GroupPointer], (key) => [
      createInitializeGroupPointerInstruction(key, payer.publicKey, key, PROGRAM),
    ]);
    await tokenGroupInitializeGroupWithRentTransfer(connection, payer, mint, payer, payer.publicKey, 3n, [], ...LAST);
    const { maxSize, size } = getTokenGroupState(await readMint(mint));
    assert.deepEqual([maxSize, size], [3n, 0n]);
    assert.equal((await parsedExtension(mint, 'tokenGroup')).maxSize, 3);
  });
}
