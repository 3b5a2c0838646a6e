// What a caller of Anchor gets when a transaction fails: the error's class, its code, its text and its logs.

import assert from 'node:assert/strict';
import { Keypair, SendTransactionError, SystemProgram, Transaction } from '@solana/web3.js';
import { until } from '../steps.js';
import { MOST, counterIdl } from './counter.js';
import { CONFIRMED, alice, connection, payer } from './world.js';

export function errorSteps(step, world) {
  const { anchor, provider } = world;
  const { AnchorError, BN, ProgramError } = anchor.default;
  const add = (amount) => world.program.methods.add(new BN(amount)).accounts({ counter: world.counter });
  const tooMuch = () => new Transaction().add(
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: alice.publicKey, lamports: 10n ** 15n }),
  );
  const isAnchorError = (error) => {
    assert.ok(error instanceof AnchorError, `${error}`);
    assert.deepEqual(error.error.errorCode, { code: 'TooMuch', number: 6_000 });
    assert.equal(error.error.errorMessage, `No more than ${MOST} at once`);
    assert.deepEqual(error.error.origin, { file: 'programs/counter/src/lib.rs', line: 12 });
    assert.equal(error.program.toBase58(), world.program.programId.toBase58());
    assert.ok(error.logs.some((line) => line.endsWith('custom program error: 0x1770')), error.logs.join('\n'));
    return true;
  };

  step('errors: a require! is an AnchorError, sent and tried', async () => {
    await assert.rejects(add(MOST + 1).rpc(), isAnchorError);
    await assert.rejects(add(MOST + 1).simulate(), (error) => {
      const { err, logs, unitsConsumed } = error.simulationResponse;
      assert.deepEqual(err, { InstructionError: [0, { Custom: 6_000 }] });
      assert.ok(isAnchorError(AnchorError.parse(logs)) && unitsConsumed > 0);
      return true;
    });
  });

  // Anchor expects one "custom program error" in the text. web3.js adds the logs to it, which have another: so
  // it rethrows the error of web3.js, and only the message has the error of the IDL.
  const isProgramError = (code, msg) => (error) => {
    assert.ok(error instanceof SendTransactionError, `${error}`);
    assert.deepEqual(error.programErrorStack.map(String), [String(world.program.programId)]);
    const errors = new Map(world.program.idl.errors.map((each) => [each.code, each.msg]));
    const parsed = ProgramError.parse(new Error(error.transactionError.message), errors);
    assert.ok(parsed instanceof ProgramError, error.transactionError.message);
    assert.deepEqual([parsed.code, parsed.msg], [code, msg]);
    return true;
  };

  step('errors: a code without a log is found in the message, by the IDL', async () => {
    await assert.rejects(add(0).rpc(), isProgramError(6_001, 'Nothing to add'));
  });

  step("errors: so is one of Anchor's own codes", async () => {
    const unknown = world.program.methods.notThere().accounts({ counter: world.counter });
    await assert.rejects(unknown.rpc(), isProgramError(101, 'Fallback functions are not supported'));
  });

  step("errors: one of Solana's is a SendTransactionError with the logs", async () => {
    const none = Keypair.generate().publicKey;
    await assert.rejects(world.program.methods.add(new BN(1)).accounts({ counter: none }).rpc(), (error) => {
      assert.ok(error instanceof SendTransactionError, `${error}`);
      assert.match(error.message, /invalid account data for instruction/);
      assert.ok(error.logs.includes(`Program ${world.program.programId} failed: invalid account data for instruction`));
      return true;
    });
    await assert.rejects(provider.sendAndConfirm(tooMuch()), (error) => {
      assert.ok(error instanceof SendTransactionError, `${error}`);
      assert.match(error.message, /custom program error: 0x1/);
      assert.ok(error.logs.some((line) => line.includes('insufficient lamports')), error.logs.join('\n'));
      return true;
    });
  });

  step('errors: a program that is not deployed is said to be not there', async () => {
    const absent = new anchor.Program(counterIdl(Keypair.generate().publicKey), provider);
    await assert.rejects(absent.methods.add(new BN(1)).accounts({ counter: world.counter }).rpc(), (error) => {
      assert.ok(error instanceof SendTransactionError, `${error}`);
      assert.match(error.message, /Attempt to load a program that does not exist/);
      return true;
    });
  });

  step('errors: without preflight it fails in its block, and is an Error all the same', async () => {
    // At `processed`: at `confirmed` web3.js rejects with the error of a status as a plain object.
    const options = { skipPreflight: true, commitment: 'processed', preflightCommitment: 'processed' };
    await assert.rejects(provider.sendAndConfirm(tooMuch(), [], options), (error) => {
      // With logs, if the block is confirmed already when Anchor requests them.
      assert.ok(error instanceof Error, JSON.stringify(error));
      return true;
    });
    const failed = await until('the failed transaction', async () => {
      const [listed] = await connection.getSignaturesForAddress(payer.publicKey, { limit: 1 }, 'confirmed');
      return listed.err !== null && listed;
    });
    assert.deepEqual(failed.err, { InstructionError: [0, { Custom: 1 }] });
  });

  step('errors: a provider that only tries says what would fail', async () => {
    await assert.rejects(provider.simulate(tooMuch(), [], CONFIRMED.commitment), (error) => {
      assert.deepEqual(error.simulationResponse.err, { InstructionError: [0, { Custom: 1 }] });
      assert.ok(error.simulationResponse.logs.length > 0);
      return true;
    });
  });
}
