// `@solana/spl-token` with the extensions of Token-2022 against a running node, step by step.

import assert from 'node:assert/strict';
import { LAMPORTS_PER_SOL } from '@solana/web3.js';
import { flow } from '../steps.js';
import { accountExtensionSteps } from './extensions_of_accounts.js';
import { mintExtensionSteps } from './extensions_of_mints.js';
import { feeSteps } from './transfer_fees.js';
import { tokenErrorSteps } from './token_errors.js';
import { airdrop, alice, bob, connection, payer } from './world.js';

const { step, run } = flow('spl_token_flow');

step('airdrop', async () => {
  for (const { publicKey } of [payer, alice, bob]) await airdrop(publicKey, 10);
  assert.equal(await connection.getBalance(payer.publicKey), 10 * LAMPORTS_PER_SOL);
});
feeSteps(step);
accountExtensionSteps(step);
mintExtensionSteps(step);
tokenErrorSteps(step);

run();
