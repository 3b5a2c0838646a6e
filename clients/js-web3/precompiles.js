// Signatures checked by the node itself: Ed25519 and Secp256k1 instructions as web3.js makes them.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Ed25519Program, Keypair, Secp256k1Program, SystemProgram, Transaction } from '@solana/web3.js';
import { connection, payer, send, transactionOf } from './world.js';

const MESSAGE = Buffer.from('what was signed');

const ed25519 = () =>
  Ed25519Program.createInstructionWithPrivateKey({ privateKey: Keypair.generate().secretKey, message: MESSAGE });
const secp256k1 = (instructionIndex) =>
  Secp256k1Program.createInstructionWithPrivateKey({ privateKey: randomBytes(32), message: MESSAGE, instructionIndex });
const toSelf = () =>
  SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: 1 });

// The same instruction over a message that nobody signed: the message is what its data ends with.
const forged = (instruction) => {
  instruction.data[instruction.data.length - 1] ^= 1;
  return instruction;
};

export function precompileSteps(step) {
  step('precompiles: signatures of other curves are checked, and each is paid for', async () => {
    const { meta } = await transactionOf(await send([ed25519(), secp256k1(1), toSelf()], [payer]));
    assert.equal(meta.fee, 15_000);
    const system = SystemProgram.programId;
    assert.deepEqual(meta.logMessages, [`Program ${system} invoke [1]`, `Program ${system} success`]);
    for (const { programId } of [Ed25519Program, Secp256k1Program]) {
      const account = await connection.getAccountInfo(programId);
      assert.deepEqual([account.executable, account.lamports, account.data.length], [true, 1, 0]);
    }
  });

  step('precompiles: a wrong signature fails in preflight, and in its block', async () => {
    const cases = [[forged(ed25519()), toSelf()], [toSelf(), forged(secp256k1(1))]];
    for (const [at, instructions] of cases.entries()) {
      await assert.rejects(send(instructions, [payer]), /custom program error: 0x2/);
      const latest = await connection.getLatestBlockhash();
      const transaction = new Transaction({ feePayer: payer.publicKey, ...latest }).add(...instructions);
      const signature = await connection.sendTransaction(transaction, [payer], { skipPreflight: true });
      const { meta } = await transactionOf(signature);
      assert.deepEqual(meta.err, { InstructionError: [at, { Custom: 2 }] });
      assert.equal(meta.fee, 10_000);
    }
  });
}
