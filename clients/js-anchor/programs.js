// A program by its IDL: deployed, called, tried, watched, and read back from history.

import assert from 'node:assert/strict';
import { Keypair } from '@solana/web3.js';
import { Inbox } from '../steps.js';
import { counterElf, counterIdl } from './counter.js';
import { deploy } from './loader.js';
import { connection, payer, socketSettled, transactionOf } from './world.js';

// What later steps need is put into `world`: the program and one counter.
export function programSteps(step, world) {
  const { anchor, provider } = world;
  const { BN } = anchor.default;
  const add = (amount) => world.program.methods.add(new BN(amount)).accounts({ counter: world.counter });
  const plain = ({ amount, total }) => [amount.toNumber(), total.toNumber()];

  step('program: deploy it through an IDL of the loader', async () => {
    const address = await deploy(anchor, provider, counterElf());
    world.program = new anchor.Program(counterIdl(address), provider);
    assert.ok((await connection.getAccountInfo(address)).executable);
    assert.equal(await anchor.Program.fetchIdl(address, provider), null, 'no IDL is published');
  });

  step('program: an account is created and fetched', async () => {
    const account = Keypair.generate();
    world.counter = account.publicKey;
    assert.equal(await world.program.account.counter.fetchNullable(world.counter), null);
    const create = await world.program.account.counter.createInstruction(account);
    await world.program.methods.initialize().accounts({ counter: world.counter })
      .preInstructions([create]).signers([account]).rpc();
    const { data, context } = await world.program.account.counter.fetchAndContext(world.counter);
    assert.equal(data.total.toNumber(), 0);
    assert.ok(context.slot > 0);
  });

  step('program: a call changes the account, and listeners of events and of the account hear it', async () => {
    const [events, changes] = [new Inbox('Added'), new Inbox('counter')];
    const listener = world.program.addEventListener(
      'added', (event, slot, signature) => events.push({ event, slot, signature }), 'confirmed',
    );
    world.program.account.counter.subscribe(world.counter, 'confirmed').on('change', (account) => changes.push(account));
    await socketSettled();
    world.added = await add(7).rpc();
    const first = await events.next();
    assert.deepEqual([plain(first.event), first.signature], [[7, 7], world.added]);
    assert.equal(first.slot, (await transactionOf(world.added)).slot);
    await add(5).rpc();
    assert.deepEqual(plain((await events.next(({ event }) => event.total.toNumber() === 12)).event), [5, 12]);
    await changes.next(({ total }) => total.toNumber() === 12);
    await world.program.removeEventListener(listener);
    await world.program.account.counter.unsubscribe(world.counter);
    assert.equal((await world.program.account.counter.fetch(world.counter)).total.toNumber(), 12);
  });

  step('program: a simulated call has its events', async () => {
    const { events, raw } = await add(3).simulate();
    assert.deepEqual(events.map(({ name, data }) => [name, ...plain(data)]), [['added', 3, 15]]);
    assert.equal(raw[0], `Program ${world.program.programId} invoke [1]`);
    assert.equal((await world.program.account.counter.fetch(world.counter)).total.toNumber(), 12);
  });

  step('program: a view returns what the program returns', async () => {
    const total = await world.program.methods.total().accounts({ counter: world.counter }).view();
    assert.equal(total.toNumber(), 12);
  });

  step('program: accounts of a kind, several and all', async () => {
    const other = Keypair.generate();
    const create = await world.program.account.counter.createInstruction(other);
    await world.program.methods.initialize().accounts({ counter: other.publicKey })
      .preInstructions([create]).signers([other]).rpc();
    const [first, second, none] = await world.program.account.counter.fetchMultiple(
      [world.counter, other.publicKey, Keypair.generate().publicKey],
    );
    assert.deepEqual([first.total.toNumber(), second.total.toNumber(), none], [12, 0, null]);
    const all = await world.program.account.counter.all();
    assert.deepEqual(
      all.map(({ publicKey }) => publicKey.toBase58()).sort(),
      [world.counter, other.publicKey].map((key) => key.toBase58()).sort(),
    );
    const twelve = await world.program.account.counter.all(new BN(12).toArrayLike(Buffer, 'le', 8));
    assert.deepEqual(twelve.map(({ publicKey }) => publicKey.toBase58()), [world.counter.toBase58()]);
  });

  step('program: instruction and event are decoded out of history', async () => {
    const { meta, transaction } = await transactionOf(world.added);
    const [compiled] = transaction.message.compiledInstructions;
    const decoded = world.program.coder.instruction.decode(Buffer.from(compiled.data));
    assert.deepEqual([decoded.name, decoded.data.amount.toNumber()], ['add', 7]);
    const parser = new anchor.EventParser(world.program.programId, world.program.coder);
    assert.deepEqual([...parser.parseLogs(meta.logMessages)].map(({ data }) => plain(data)), [[7, 7]]);
    const [listed] = await connection.getSignaturesForAddress(world.counter, { limit: 1 }, 'confirmed');
    assert.equal(listed.err, null);
    assert.ok((await connection.getBalance(payer.publicKey)) > 0);
  });
}
