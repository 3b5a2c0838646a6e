// Transfer fees: withheld where the tokens go, harvested to the mint, withdrawn by their authority.

import assert from 'node:assert/strict';
import {
  ExtensionType,
  calculateEpochFee,
  createInitializeTransferFeeConfigInstruction,
  getTransferFeeAmount,
  getTransferFeeConfig,
  harvestWithheldTokensToMint,
  setTransferFee,
  transferChecked,
  transferCheckedWithFee,
  withdrawWithheldTokensFromAccounts,
  withdrawWithheldTokensFromMint,
} from '@solana/spl-token';
import { DECIMALS, LAST, accountWith, createMintWith, parsedExtension, readAccount, readMint, refused } from './token_2022.js';
import { CONFIRMED, alice, bob, connection, payer, transactionOf } from './world.js';

const BASIS_POINTS = 250;
const FEE_MAX = 40n;
const FEE_MISMATCH = 32;

export function feeSteps(step) {
  let mint, source, target;
  const withheld = async () => getTransferFeeAmount(await readAccount(target)).withheldAmount;
  const transferWithFee = (amount, fee) =>
    transferCheckedWithFee(connection, payer, source, mint, target, alice, amount, DECIMALS, fee, [], ...LAST);

  step('fees: a mint with a transfer fee', async () => {
    mint = await createMintWith([ExtensionType.TransferFeeConfig], (key) => [
      createInitializeTransferFeeConfigInstruction(key, payer.publicKey, payer.publicKey, BASIS_POINTS, FEE_MAX, LAST[1]),
    ]);
    source = await accountWith(mint, alice, 10_000n);
    target = await accountWith(mint, bob);
    const config = getTransferFeeConfig(await readMint(mint));
    const { epoch } = await connection.getEpochInfo();
    assert.equal(calculateEpochFee(config, BigInt(epoch), 1_000n), 25n);
    const parsed = await parsedExtension(mint, 'transferFeeConfig');
    assert.deepEqual(parsed.newerTransferFee, { epoch, maximumFee: Number(FEE_MAX), transferFeeBasisPoints: BASIS_POINTS });
    assert.equal(parsed.withdrawWithheldAuthority, payer.publicKey.toBase58());
  });

  step('fees: a transfer withholds its fee, and at most the maximum', async () => {
    const signature = await transferWithFee(1_000n, 25n);
    assert.equal((await readAccount(target)).amount, 975n);
    assert.equal(await withheld(), 25n);
    await transferChecked(connection, payer, source, mint, target, alice, 5_000n, DECIMALS, [], ...LAST);
    assert.equal(await withheld(), 25n + FEE_MAX);
    const parsed = await connection.getParsedTransaction(signature, { maxSupportedTransactionVersion: 0 });
    const { type, info } = parsed.transaction.message.instructions[0].parsed;
    assert.deepEqual([type, info.feeAmount.amount, info.tokenAmount.amount], ['transferCheckedWithFee', '25', '1000']);
    assert.equal((await parsedExtension(target, 'transferFeeAmount')).withheldAmount, 65);
  });

  step('fees: another fee than the one due is refused', async () => {
    await refused(transferWithFee(1_000n, 24n), FEE_MISMATCH, 'Calculated fee does not match expected fee');
  });

  step('fees: withheld tokens are harvested to the mint and withdrawn', async () => {
    await harvestWithheldTokensToMint(connection, payer, mint, [target], ...LAST);
    assert.equal(await withheld(), 0n);
    assert.equal(getTransferFeeConfig(await readMint(mint)).withheldAmount, 65n);
    const before = (await readAccount(source)).amount;
    await withdrawWithheldTokensFromMint(connection, payer, mint, source, payer, [], ...LAST);
    assert.equal((await readAccount(source)).amount, before + 65n);
    await transferWithFee(400n, 10n);
    await withdrawWithheldTokensFromAccounts(connection, payer, mint, source, payer, [], [target], ...LAST);
    assert.equal((await readAccount(source)).amount, before + 65n - 400n + 10n);
  });

  step('fees: a new fee holds from two epochs on', async () => {
    const signature = await setTransferFee(connection, payer, mint, payer, [], 100, 7n, ...LAST);
    assert.equal((await transactionOf(signature)).meta.err, null);
    const { olderTransferFee, newerTransferFee } = getTransferFeeConfig(await readMint(mint));
    const { epoch } = await connection.getEpochInfo(CONFIRMED.commitment);
    assert.deepEqual([olderTransferFee.transferFeeBasisPoints, newerTransferFee.transferFeeBasisPoints], [BASIS_POINTS, 100]);
    assert.equal(newerTransferFee.epoch, BigInt(epoch) + 2n);
  });
}
