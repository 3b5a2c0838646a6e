// A program over the upgradeable loader: buffer, chunks, deploy, call, upgrade, call again.

import assert from 'node:assert/strict';
import {
  generateKeyPairSigner,
  getAddressEncoder,
  getBase64EncodedWireTransaction,
  getProgramDerivedAddress,
  getSignatureFromTransaction,
} from '@solana/kit';
import {
  LOADER_V3_PROGRAM_ADDRESS,
  getDeployWithMaxDataLenInstruction,
  getInitializeBufferInstruction,
  getUpgradeInstruction,
  getWriteInstruction,
} from '@solana-program/loader-v3';
import { getAddMemoInstruction } from '@solana-program/memo';
import { getCreateAccountInstruction } from '@solana-program/system';
import { getCreateAssociatedTokenInstruction } from '@solana-program/token';
import { until } from '../steps.js';
import { CONFIRMED, alice, payer, programElf, rpc, send, signed, slotAfter, transactionOf, upgradeElf } from './world.js';

const BUFFER_HEADER = 37;
const PROGRAM_SIZE = 36n;
const CHUNK = 1_000;

export function programSteps(step, token) {
  const kept = {};
  const call = async (instruction) => (await transactionOf(await send([instruction]))).meta.logMessages;

  step('program: write the ELF to a buffer and deploy it', async () => {
    const program = await generateKeyPairSigner();
    kept.program = program.address;
    [kept.programData] = await getProgramDerivedAddress({
      programAddress: LOADER_V3_PROGRAM_ADDRESS, seeds: [getAddressEncoder().encode(program.address)],
    });
    const elf = programElf();
    const buffer = await filledBuffer(elf);
    const signature = await send([
      getCreateAccountInstruction({
        payer, newAccount: program, space: PROGRAM_SIZE, programAddress: LOADER_V3_PROGRAM_ADDRESS,
        lamports: await rpc.getMinimumBalanceForRentExemption(PROGRAM_SIZE).send(),
      }),
      getDeployWithMaxDataLenInstruction({
        payerAccount: payer, programDataAccount: kept.programData, programAccount: program.address,
        bufferAccount: buffer, authority: payer, maxDataLen: elf.length,
      }),
    ]);
    const { value } = await rpc.getAccountInfo(kept.program, { ...CONFIRMED, encoding: 'jsonParsed' }).send();
    assert.equal(value.executable, true);
    assert.deepEqual(value.data.parsed, { type: 'program', info: { programData: kept.programData } });
    await slotAfter((await transactionOf(signature)).slot);
  });

  step('program: call it, and it calls others', async () => {
    // The deployed program is the associated token account program. It derives accounts from its own address.
    const seeds = [alice.address, token.program, token.mint].map((each) => getAddressEncoder().encode(each));
    const [ata] = await getProgramDerivedAddress({ programAddress: kept.program, seeds });
    const logs = await call(getCreateAssociatedTokenInstruction(
      { payer, ata, owner: alice.address, mint: token.mint, tokenProgram: token.program }, { programAddress: kept.program },
    ));
    assert.equal(logs[0], `Program ${kept.program} invoke [1]`);
    assert.ok(logs.includes(`Program ${token.program} invoke [2]`), logs.join('\n'));
    assert.equal((await rpc.getTokenAccountBalance(ata, CONFIRMED).send()).value.amount, '0');
  });

  step('program: upgrade it, and the call answers as the new build', async () => {
    const buffer = await filledBuffer(upgradeElf());
    const signature = await send([getUpgradeInstruction({
      programDataAccount: kept.programData, programAccount: kept.program, bufferAccount: buffer,
      spillAccount: payer.address, authority: payer,
    })]);
    const { slot } = await transactionOf(signature);
    const { value } = await rpc.getAccountInfo(kept.programData, { ...CONFIRMED, encoding: 'jsonParsed' }).send();
    assert.deepEqual([value.data.parsed.type, BigInt(value.data.parsed.info.slot)], ['programData', slot]);
    await slotAfter(slot);
    const logs = await call(getAddMemoInstruction({ memo: 'second' }, { programAddress: kept.program }));
    assert.ok(logs.includes('Program log: Memo (len 6)'), logs.join('\n'));
  });
}

async function filledBuffer(elf) {
  const buffer = await generateKeyPairSigner();
  const space = BigInt(BUFFER_HEADER + elf.length);
  await send([
    getCreateAccountInstruction({
      payer, newAccount: buffer, space, programAddress: LOADER_V3_PROGRAM_ADDRESS,
      lamports: await rpc.getMinimumBalanceForRentExemption(space).send(),
    }),
    getInitializeBufferInstruction({ sourceAccount: buffer.address, bufferAuthority: payer.address }),
  ]);
  const chunks = [];
  for (let offset = 0; offset < elf.length; offset += CHUNK) {
    const bytes = elf.subarray(offset, offset + CHUNK);
    chunks.push(await signed([getWriteInstruction({ bufferAccount: buffer.address, bufferAuthority: payer, offset, bytes })]));
  }
  const signatures = chunks.map(getSignatureFromTransaction);
  await Promise.all(chunks.map((each) =>
    rpc.sendTransaction(getBase64EncodedWireTransaction(each), { encoding: 'base64', skipPreflight: true }).send()));
  await until('every chunk to be confirmed', async () => {
    const { value } = await rpc.getSignatureStatuses(signatures).send();
    for (const status of value) if (status !== null) assert.equal(status.err, null);
    return value.every((status) => status !== null && status.confirmationStatus !== 'processed');
  });
  const { value } = await rpc.getAccountInfo(buffer.address, { ...CONFIRMED, encoding: 'base64+zstd' }).send();
  assert.equal(value.space, space);
  return buffer.address;
}
