// `@solana/kit` with the `@solana-program` packages against a running node: the main flow, step by step.

import assert from 'node:assert/strict';
import * as token from '@solana-program/token';
import * as token2022 from '@solana-program/token-2022';
import { flow } from '../steps.js';
import { forkSteps } from './forks.js';
import { finalizedSteps, historySteps } from './history.js';
import { nodeSteps } from './node.js';
import { programSteps } from './programs.js';
import { subscriptionSteps } from './subscriptions.js';
import { tokenSteps } from './tokens.js';
import { failingSteps, nonceSteps, versionedSteps } from './transactions.js';
import { airdrop, alice, bob, payer, rpc, sol, stopListening } from './world.js';

const plain = { program: token.TOKEN_PROGRAM_ADDRESS, parsedAs: 'spl-token' };
const extended = { program: token2022.TOKEN_2022_PROGRAM_ADDRESS, parsedAs: 'spl-token-2022' };
const { step, run } = flow('kit_flow');

nodeSteps(step);
step('airdrop', async () => {
  for (const { address } of [payer, alice, bob]) {
    await airdrop({ commitment: 'confirmed', lamports: sol(10), recipientAddress: address });
  }
  assert.equal((await rpc.getBalance(payer.address, { commitment: 'confirmed' }).send()).value, sol(10));
});
tokenSteps(step, 'token', token, plain.program, plain);
tokenSteps(step, 'token-2022', token2022, extended.program, extended);
subscriptionSteps(step);
failingSteps(step, plain);
versionedSteps(step, {});
nonceSteps(step);
programSteps(step, plain);
historySteps(step, plain);
historySteps(step, extended);
finalizedSteps(step, plain);
// Last: what it leaves is not there for other steps.
forkSteps(step);

run(stopListening);
