// The test of an Anchor workspace (workspace.js), as its `[scripts] test` runs it: `anchor test` has started a ledger
// that has the program.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import * as anchor from '@anchor-lang/core';
import { Keypair } from '@solana/web3.js';

test('a program of the workspace', async () => {
  const { BN } = anchor.default;
  const provider = anchor.AnchorProvider.env();
  const idl = JSON.parse(readFileSync('target/idl/counter.json', 'utf8'));
  const program = new anchor.Program(idl, provider);
  const { executable } = await provider.connection.getAccountInfo(program.programId);
  assert.ok(executable, 'it is there before the test');

  const counter = Keypair.generate();
  const create = await program.account.counter.createInstruction(counter);
  await program.methods.initialize().accounts({ counter: counter.publicKey })
    .preInstructions([create]).signers([counter]).rpc();
  const add = (amount) => program.methods.add(new BN(amount)).accounts({ counter: counter.publicKey }).rpc();
  let event;
  const listener = program.addEventListener('added', (added) => { event = added; });
  try {
    // The subscription starts while the first of them run. Equal ones with one blockhash would be one transaction.
    let total = 0;
    for (let amount = 1; !event; amount += 1) {
      await add(amount);
      total += amount;
    }
    assert.ok(event.total.toNumber() <= total);
    assert.equal((await program.account.counter.fetch(counter.publicKey)).total.toNumber(), total);
  } finally {
    await program.removeEventListener(listener);
  }
  await assert.rejects(add(0), /Nothing to add|custom program error: 0x1771/);
});
