// Instructions of the token programs, as far as the flow needs them.

import { PublicKey, SystemProgram, TransactionInstruction } from '@solana/web3.js';
import { connection, payer } from './world.js';

export const TOKEN = new PublicKey('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA');
const ASSOCIATED = new PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
const MINT_BYTES = 82;

const key = (pubkey, isWritable = false, isSigner = false) => ({ pubkey, isWritable, isSigner });

// A number with eight bytes after the byte that says what to do.
function withAmount(tag, amount) {
  const data = Buffer.alloc(9, tag);
  data.writeBigUInt64LE(BigInt(amount), 1);
  return data;
}

export async function createMint(mint) {
  const lamports = await connection.getMinimumBalanceForRentExemption(MINT_BYTES);
  const data = Buffer.concat([Buffer.from([20, 2]), payer.publicKey.toBuffer(), Buffer.from([0])]);
  return [
    SystemProgram.createAccount({ fromPubkey: payer.publicKey, newAccountPubkey: mint, lamports, space: MINT_BYTES, programId: TOKEN }),
    new TransactionInstruction({ programId: TOKEN, keys: [key(mint, true)], data }),
  ];
}

export const accountOf = (owner, mint) =>
  PublicKey.findProgramAddressSync([owner.toBuffer(), TOKEN.toBuffer(), mint.toBuffer()], ASSOCIATED)[0];

// Calls the token program and the system program.
export function createAccount(owner, mint) {
  const keys = [
    key(payer.publicKey, true, true), key(accountOf(owner, mint), true), key(owner), key(mint),
    key(SystemProgram.programId), key(TOKEN),
  ];
  return new TransactionInstruction({ programId: ASSOCIATED, keys, data: Buffer.from([1]) });
}

export function mintTo(mint, owner, amount) {
  const keys = [key(mint, true), key(accountOf(owner, mint), true), key(payer.publicKey, false, true)];
  return new TransactionInstruction({ programId: TOKEN, keys, data: withAmount(7, amount) });
}

export function transferTokens(mint, to, amount) {
  const keys = [key(accountOf(payer.publicKey, mint), true), key(accountOf(to, mint), true), key(payer.publicKey, false, true)];
  return new TransactionInstruction({ programId: TOKEN, keys, data: withAmount(3, amount) });
}
