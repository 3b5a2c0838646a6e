// What the steps of Token-2022 share: a mint with extensions, accounts that hold some of it, what fails.

import assert from 'node:assert/strict';
import {
  TOKEN_2022_PROGRAM_ID,
  createAssociatedTokenAccount,
  createInitializeMint2Instruction,
  getAccount,
  getMint,
  getMintLen,
  mintTo,
} from '@solana/spl-token';
import { Keypair, SendTransactionError, SystemProgram } from '@solana/web3.js';
import { CONFIRMED, connection, payer, send } from './world.js';

export const PROGRAM = TOKEN_2022_PROGRAM_ID;
export const DECIMALS = 2;
// What the functions of spl-token end with: how to confirm, and which program.
export const LAST = [CONFIRMED, PROGRAM];

// A mint of these extensions; `initialize(mint)` are the instructions before the mint's own.
export async function createMintWith(extensions, initialize, { freezeAuthority = null, room = 0 } = {}) {
  const mint = Keypair.generate();
  const space = getMintLen(extensions);
  await send([
    SystemProgram.createAccount({
      fromPubkey: payer.publicKey, newAccountPubkey: mint.publicKey, space, programId: PROGRAM,
      lamports: await connection.getMinimumBalanceForRentExemption(space + room),
    }),
    ...initialize(mint.publicKey),
    createInitializeMint2Instruction(mint.publicKey, DECIMALS, payer.publicKey, freezeAuthority, PROGRAM),
  ], [payer, mint]);
  return mint.publicKey;
}

// The associated account of an owner, with this amount of the token in it.
export async function accountWith(mint, owner, amount = 0n) {
  const account = await createAssociatedTokenAccount(connection, payer, mint, owner.publicKey, ...LAST);
  if (amount > 0n) await mintTo(connection, payer, mint, account, payer, amount, [], ...LAST);
  return account;
}

export const readAccount = (address) => getAccount(connection, address, 'confirmed', PROGRAM);
export const readMint = (address) => getMint(connection, address, 'confirmed', PROGRAM);

// The state of one extension as the node parses it.
export async function parsedExtension(address, name) {
  const { value } = await connection.getParsedAccountInfo(address);
  assert.equal(value.data.program, 'spl-token-2022');
  return value.data.parsed.info.extensions.find(({ extension }) => extension === name)?.state;
}

// The transaction is refused with this error of the program, and with a log that names it.
export async function refused(transaction, code, log) {
  await assert.rejects(transaction, (error) => {
    assert.ok(error instanceof SendTransactionError, error.stack);
    assert.match(error.message, new RegExp(`custom program error: 0x${code.toString(16)}\\b`));
    assert.ok(error.logs.some((line) => line.includes(log)), error.logs.join('\n'));
    return true;
  });
}

