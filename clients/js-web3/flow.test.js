// `@solana/web3.js` 1.x with `@solana/spl-token` against a running node: the main flow, step by step.

import assert from 'node:assert/strict';
import { TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID } from '@solana/spl-token';
import { LAMPORTS_PER_SOL } from '@solana/web3.js';
import { flow } from '../steps.js';
import { addressSteps } from './addresses.js';
import { forkSteps } from './forks.js';
import { finalizedSteps, historySteps } from './history.js';
import { nodeSteps } from './node.js';
import { genesisProgramSteps } from './programs_of_genesis.js';
import { precompileSteps } from './precompiles.js';
import { programSteps } from './programs.js';
import { subscriptionSteps } from './subscriptions.js';
import { tokenSteps } from './tokens.js';
import { failingSteps, nonceSteps, orderSteps, versionedSteps } from './transactions.js';
import { airdrop, alice, bob, connection, payer } from './world.js';

const token = { programId: TOKEN_PROGRAM_ID, parsedAs: 'spl-token' };
const token2022 = { programId: TOKEN_2022_PROGRAM_ID, parsedAs: 'spl-token-2022' };
const { step, run } = flow('web3_js_flow');

nodeSteps(step);
step('airdrop', async () => {
  for (const { publicKey } of [payer, alice, bob]) await airdrop(publicKey, 10);
  assert.equal(await connection.getBalance(payer.publicKey), 10 * LAMPORTS_PER_SOL);
});
tokenSteps(step, 'token', TOKEN_PROGRAM_ID, token);
tokenSteps(step, 'token-2022', TOKEN_2022_PROGRAM_ID, token2022);
subscriptionSteps(step);
addressSteps(step);
failingSteps(step, token);
orderSteps(step);
versionedSteps(step, {});
nonceSteps(step);
programSteps(step, token);
genesisProgramSteps(step);
precompileSteps(step);
historySteps(step, token);
historySteps(step, token2022);
finalizedSteps(step, token);
// Last: what it leaves is not there for other steps.
forkSteps(step);

run();
