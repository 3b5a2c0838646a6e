// What spl-token's own functions throw, and what the two token programs refuse.

import assert from 'node:assert/strict';
import {
  TOKEN_PROGRAM_ID,
  TokenAccountNotFoundError,
  TokenInvalidAccountOwnerError,
  burn,
  createAssociatedTokenAccount,
  createAssociatedTokenAccountIdempotent,
  createMint,
  createTransferInstruction,
  getAccount,
  getMint,
  getMultipleAccounts,
  mintTo,
  setAuthority,
  AuthorityType,
} from '@solana/spl-token';
import { Keypair } from '@solana/web3.js';
import { PROGRAM, refused } from './token_2022.js';
import { CONFIRMED, alice, bob, connection, payer, send } from './world.js';

const INSUFFICIENT_FUNDS = 1;
const OWNER_MISMATCH = 4;
const FIXED_SUPPLY = 5;

export function tokenErrorSteps(step) {
  step('errors: an account that is not there, and one of another program', async () => {
    const mint = await createMint(connection, payer, payer.publicKey, null, 0, undefined, CONFIRMED, PROGRAM);
    await assert.rejects(getMint(connection, Keypair.generate().publicKey, 'confirmed'), TokenAccountNotFoundError);
    await assert.rejects(getMint(connection, mint, 'confirmed', TOKEN_PROGRAM_ID), TokenInvalidAccountOwnerError);
    await assert.rejects(getAccount(connection, payer.publicKey, 'confirmed'), TokenInvalidAccountOwnerError);
  });

  for (const programId of [TOKEN_PROGRAM_ID, PROGRAM]) {
    const last = [CONFIRMED, programId];
    step(`errors: what ${programId === PROGRAM ? 'Token-2022' : 'Token'} refuses`, async () => {
      const mint = await createMint(connection, payer, payer.publicKey, null, 0, undefined, ...last);
      const account = await createAssociatedTokenAccount(connection, payer, mint, alice.publicKey, ...last);
      const again = await createAssociatedTokenAccountIdempotent(connection, payer, mint, alice.publicKey, ...last);
      assert.ok(again.equals(account));
      await mintTo(connection, payer, mint, account, payer, 10n, [], ...last);
      await refused(burn(connection, payer, account, mint, alice, 11n, [], ...last), INSUFFICIENT_FUNDS, 'Error: insufficient funds');
      const steal = createTransferInstruction(account, account, bob.publicKey, 1n, [], programId);
      await refused(send([steal], [payer, bob]), OWNER_MISMATCH, 'Error: owner does not match');
      await setAuthority(connection, payer, mint, payer, AuthorityType.MintTokens, null, [], ...last);
      await refused(mintTo(connection, payer, mint, account, payer, 1n, [], ...last), FIXED_SUPPLY, 'Error: the total supply of this token is fixed');
      const [read] = await getMultipleAccounts(connection, [account], 'confirmed', programId);
      assert.equal(read.amount, 10n);
    });
  }
}
