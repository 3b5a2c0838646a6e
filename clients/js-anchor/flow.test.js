// Anchor's TypeScript against a running node, step by step: once as `@coral-xyz/anchor`, once as `@anchor-lang/core`,
// the name under which it goes on.

import assert from 'node:assert/strict';
import * as renamed from '@anchor-lang/core';
import * as anchor from '@coral-xyz/anchor';
import { LAMPORTS_PER_SOL } from '@solana/web3.js';
import { flow } from '../steps.js';
import { errorSteps } from './errors.js';
import { nativeSteps, tokenSteps } from './native.js';
import { programSteps } from './programs.js';
import { airdrop, alice, connection, payer, providerOf } from './world.js';

function anchorFlow(name, anchor) {
  const { step, run } = flow(name);
  const world = { anchor, provider: providerOf(anchor) };
  step('airdrop', async () => {
    for (const { publicKey } of [payer, alice]) await airdrop(publicKey, 10);
    assert.ok((await connection.getBalance(payer.publicKey)) >= 10 * LAMPORTS_PER_SOL);
  });
  programSteps(step, world);
  errorSteps(step, world);
  nativeSteps(step, world);
  tokenSteps(step, world);
  run();
}

anchorFlow('anchor_flow', anchor);
anchorFlow('anchor_renamed_flow', renamed);
