// A program over the upgradeable loader: buffer, chunks, deploy, call, upgrade, call again.
//
// web3.js 1.x has no instructions for this loader, so they are laid out here as its users do.

import assert from 'node:assert/strict';
import { createAssociatedTokenAccountInstruction } from '@solana/spl-token';
import {
  Keypair,
  PublicKey,
  SYSVAR_CLOCK_PUBKEY,
  SYSVAR_RENT_PUBKEY,
  SystemProgram,
  Transaction,
  TransactionInstruction,
} from '@solana/web3.js';
import { until } from '../steps.js';
import { alice, connection, payer, programElf, send, slotAfter, transactionOf, upgradeElf } from './world.js';

export const LOADER = new PublicKey('BPFLoaderUpgradeab1e11111111111111111111111');
export const BUFFER_HEADER = 37;
export const PROGRAM_SIZE = 36;
const CHUNK = 1_000;

const key = (pubkey, flags = '') => ({ pubkey, isWritable: flags.includes('w'), isSigner: flags.includes('s') });
const u32 = (value) => { const bytes = Buffer.alloc(4); bytes.writeUInt32LE(value); return bytes; };
const u64 = (value) => { const bytes = Buffer.alloc(8); bytes.writeBigUInt64LE(BigInt(value)); return bytes; };
const loader = (keys, ...data) => new TransactionInstruction({ programId: LOADER, keys, data: Buffer.concat(data) });

export const initializeBuffer = (buffer) => loader([key(buffer, 'w'), key(payer.publicKey)], u32(0));
export const write = (buffer, offset, bytes) =>
  loader([key(buffer, 'w'), key(payer.publicKey, 's')], u32(1), u32(offset), u64(bytes.length), bytes);
export const deploy = (programData, program, buffer, sizeMax) =>
  loader([
    key(payer.publicKey, 'ws'), key(programData, 'w'), key(program, 'w'), key(buffer, 'w'),
    key(SYSVAR_RENT_PUBKEY), key(SYSVAR_CLOCK_PUBKEY), key(SystemProgram.programId), key(payer.publicKey, 's'),
  ], u32(2), u64(sizeMax));
export const upgrade = (programData, program, buffer) =>
  loader([
    key(programData, 'w'), key(program, 'w'), key(buffer, 'w'), key(payer.publicKey, 'w'),
    key(SYSVAR_RENT_PUBKEY), key(SYSVAR_CLOCK_PUBKEY), key(payer.publicKey, 's'),
  ], u32(3));

// The instruction that creates an account of the loader, exempt from rent.
export const createLoaderAccount = async (account, space) =>
  SystemProgram.createAccount({
    fromPubkey: payer.publicKey,
    newAccountPubkey: account,
    lamports: await connection.getMinimumBalanceForRentExemption(space),
    space,
    programId: LOADER,
  });

// Closes a buffer, or a program with its data: the lamports go back to the payer.
export const close = (account, program) =>
  loader([
    key(account, 'w'), key(payer.publicKey, 'w'), key(payer.publicKey, 's'), ...(program ? [key(program, 'w')] : []),
  ], u32(5));

export function programSteps(step, token) {
  const program = Keypair.generate();
  const [programData] = PublicKey.findProgramAddressSync([program.publicKey.toBuffer()], LOADER);
  const call = async (instruction) => (await transactionOf(await send([instruction], [payer]))).meta.logMessages;

  step('program: write the ELF to a buffer and deploy it', async () => {
    const elf = programElf();
    const buffer = await filledBuffer(elf);
    const create = await createLoaderAccount(program.publicKey, PROGRAM_SIZE);
    const signature = await send([create, deploy(programData, program.publicKey, buffer, elf.length)], [payer, program]);
    const { value } = await connection.getParsedAccountInfo(program.publicKey);
    assert.equal(value.executable, true);
    assert.deepEqual(value.data.parsed, { type: 'program', info: { programData: programData.toBase58() } });
    assert.equal(await connection.getAccountInfo(buffer), null, 'the buffer is used up');
    await slotAfter((await transactionOf(signature)).slot);
  });

  step('program: call it, and it calls others', async () => {
    // The deployed program is the associated token account program. It derives accounts from its own address.
    const seeds = [alice.publicKey, token.programId, token.mint].map((each) => each.toBuffer());
    const [account] = PublicKey.findProgramAddressSync(seeds, program.publicKey);
    const logs = await call(createAssociatedTokenAccountInstruction(
      payer.publicKey, account, alice.publicKey, token.mint, token.programId, program.publicKey,
    ));
    assert.equal(logs[0], `Program ${program.publicKey} invoke [1]`);
    assert.ok(logs.includes(`Program ${token.programId} invoke [2]`), logs.join('\n'));
    assert.equal((await connection.getTokenAccountBalance(account)).value.amount, '0');
  });

  step('program: upgrade it, and the call answers as the new build', async () => {
    const buffer = await filledBuffer(upgradeElf());
    const { slot } = await transactionOf(await send([upgrade(programData, program.publicKey, buffer)], [payer]));
    const { value } = await connection.getParsedAccountInfo(programData);
    assert.equal(value.data.parsed.type, 'programData');
    assert.equal(value.data.parsed.info.slot, slot);
    assert.equal(value.data.parsed.info.authority, payer.publicKey.toBase58());
    await slotAfter(slot);
    const logs = await call(new TransactionInstruction({ programId: program.publicKey, keys: [], data: Buffer.from('second') }));
    assert.ok(logs.includes('Program log: Memo (len 6)'), logs.join('\n'));
  });
}

export async function filledBuffer(elf) {
  const buffer = Keypair.generate();
  const create = await createLoaderAccount(buffer.publicKey, BUFFER_HEADER + elf.length);
  await send([create, initializeBuffer(buffer.publicKey)], [payer, buffer]);

  const latest = await connection.getLatestBlockhash();
  const chunks = [];
  for (let at = 0; at < elf.length; at += CHUNK) {
    const transaction = new Transaction({ feePayer: payer.publicKey, ...latest });
    transaction.add(write(buffer.publicKey, at, elf.subarray(at, at + CHUNK)));
    chunks.push(connection.sendTransaction(transaction, [payer], { skipPreflight: true }));
  }
  const signatures = await Promise.all(chunks);
  await until('every chunk to be confirmed', async () => {
    const { value } = await connection.getSignatureStatuses(signatures);
    for (const status of value) if (status !== null) assert.equal(status.err, null);
    return value.every((status) => status !== null && status.confirmationStatus !== 'processed');
  });
  const account = await connection.getAccountInfo(buffer.publicKey);
  assert.ok(account.data.subarray(BUFFER_HEADER).equals(elf), 'the buffer holds the ELF');
  return buffer.publicKey;
}
