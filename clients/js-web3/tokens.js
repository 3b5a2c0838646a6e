// The life of a token, once for each token program, with what is read of it on the way.

import assert from 'node:assert/strict';
import {
  AccountLayout,
  approve,
  burn,
  closeAccount,
  createAssociatedTokenAccount,
  createMint,
  getAccount,
  getMint,
  getOrCreateAssociatedTokenAccount,
  mintTo,
  transfer,
  transferChecked,
} from '@solana/spl-token';
import { Inbox } from '../steps.js';
import { CONFIRMED, alice, bob, connection, payer, socketSettled } from './world.js';

const DECIMALS = 2;

// `name` starts the steps' names; `kept` is filled with the addresses and signatures for later steps.
export function tokenSteps(step, name, programId, kept) {
  const mine = () => kept.aliceAccount;
  const read = () => getAccount(connection, mine(), 'confirmed', programId);

  step(`${name}: create the mint`, async () => {
    kept.mint = await createMint(connection, payer, payer.publicKey, payer.publicKey, DECIMALS, undefined, CONFIRMED, programId);
    const mint = await getMint(connection, kept.mint, 'confirmed', programId);
    assert.equal(mint.decimals, DECIMALS);
    assert.equal(mint.supply, 0n);
    assert.ok(mint.mintAuthority.equals(payer.publicKey));
  });

  step(`${name}: create two associated accounts`, async () => {
    kept.aliceAccount = await createAssociatedTokenAccount(connection, payer, kept.mint, alice.publicKey, CONFIRMED, programId);
    const account = await getOrCreateAssociatedTokenAccount(
      connection, payer, kept.mint, bob.publicKey, false, 'confirmed', CONFIRMED, programId,
    );
    kept.bobAccount = account.address;
    assert.ok(account.owner.equals(bob.publicKey));
    assert.equal((await read()).amount, 0n);
  });

  step(`${name}: subscribe to the account, the program and the logs`, async () => {
    kept.inbox = { account: new Inbox('account'), program: new Inbox('program'), logs: new Inbox('logs') };
    const { account, program, logs } = kept.inbox;
    kept.listeners = {
      account: connection.onAccountChange(mine(), (info, context) => account.push({ info, context }), CONFIRMED),
      program: connection.onProgramAccountChange(programId, (item, context) => program.push({ ...item, context }), {
        commitment: 'confirmed',
        filters: [{ memcmp: { offset: 0, bytes: kept.mint.toBase58() } }, { memcmp: { offset: 32, bytes: bob.publicKey.toBase58() } }],
      }),
      logs: connection.onLogs(mine(), (entry, context) => logs.push({ ...entry, context }), 'confirmed'),
    };
    await socketSettled();
  });

  step(`${name}: mint`, async () => {
    kept.minted = await mintTo(connection, payer, kept.mint, mine(), payer, 1_000n, [], CONFIRMED, programId);
    assert.equal((await read()).amount, 1_000n);
    const { value: supply } = await connection.getTokenSupply(kept.mint, 'confirmed');
    assert.deepEqual(supply, { amount: '1000', decimals: DECIMALS, uiAmount: 10, uiAmountString: '10' });
  });

  step(`${name}: transfer`, async () => {
    kept.transferred = await transferChecked(
      connection, payer, mine(), kept.mint, kept.bobAccount, alice, 300n, DECIMALS, [], CONFIRMED, programId,
    );
    assert.equal((await read()).amount, 700n);
    const { value } = await connection.getTokenAccountBalance(kept.bobAccount, 'confirmed');
    assert.equal(value.uiAmountString, '3');
  });

  step(`${name}: delegate, and the delegate spends`, async () => {
    kept.approved = await approve(connection, payer, mine(), bob.publicKey, alice, 200n, [], CONFIRMED, programId);
    const delegated = await read();
    assert.ok(delegated.delegate.equals(bob.publicKey));
    assert.equal(delegated.delegatedAmount, 200n);
    await transfer(connection, payer, mine(), kept.bobAccount, bob, 50n, [], CONFIRMED, programId);
    const spent = await read();
    assert.equal(spent.amount, 650n);
    assert.equal(spent.delegatedAmount, 150n);
  });

  step(`${name}: parsed accounts of the owner and of the program`, async () => {
    const { value } = await connection.getParsedTokenAccountsByOwner(alice.publicKey, { mint: kept.mint });
    assert.equal(value.length, 1);
    const { parsed, program } = value[0].account.data;
    assert.equal(program, kept.parsedAs);
    assert.equal(parsed.type, 'account');
    assert.equal(parsed.info.tokenAmount.amount, '650');
    assert.equal(parsed.info.delegate, bob.publicKey.toBase58());
    assert.equal(parsed.info.delegatedAmount.amount, '150');

    const raw = await connection.getTokenAccountsByOwner(alice.publicKey, { programId });
    const entry = raw.value.find(({ pubkey }) => pubkey.equals(mine()));
    assert.equal(AccountLayout.decode(entry.account.data.subarray(0, AccountLayout.span)).amount, 650n);

    const holders = await connection.getParsedProgramAccounts(programId, {
      filters: [{ memcmp: { offset: 0, bytes: kept.mint.toBase58() } }],
    });
    const token = holders.map(({ pubkey }) => pubkey.toBase58()).sort();
    assert.deepEqual(token, [mine(), kept.bobAccount].map((key) => key.toBase58()).sort());

    const { value: largest } = await connection.getTokenLargestAccounts(kept.mint);
    assert.deepEqual(largest.map(({ amount }) => amount), ['650', '350']);
    assert.ok(largest[0].address.equals(mine()));
    const mint = await connection.getParsedAccountInfo(kept.mint);
    assert.equal(mint.value.data.parsed.type, 'mint');
    assert.equal(mint.value.data.parsed.info.supply, '1000');
  });

  step(`${name}: burn`, async () => {
    kept.burnt = await burn(connection, payer, mine(), kept.mint, alice, 650n, [], CONFIRMED, programId);
    assert.equal((await read()).amount, 0n);
    assert.equal((await getMint(connection, kept.mint, 'confirmed', programId)).supply, 350n);
  });

  step(`${name}: close the account`, async () => {
    const before = await connection.getBalance(bob.publicKey);
    kept.closed = await closeAccount(connection, payer, mine(), bob.publicKey, alice, [], CONFIRMED, programId);
    assert.equal(await connection.getAccountInfo(mine()), null);
    assert.ok((await connection.getBalance(bob.publicKey)) > before);
  });

  step(`${name}: every change was notified`, async () => {
    const { account, program, logs } = kept.inbox;
    const amount = ({ data }) => (data.length === 0 ? null : AccountLayout.decode(data.subarray(0, AccountLayout.span)).amount);
    const closed = await account.next(({ info }) => info.lamports === 0);
    const seen = account.items.map(({ info }) => amount(info));
    assert.deepEqual(seen.filter((now, at) => now !== seen[at - 1]), [1_000n, 700n, 650n, 0n, null]);
    assert.equal(closed.info.data.length, 0);
    const slots = account.items.map(({ context }) => context.slot);
    assert.deepEqual(slots, [...new Set(slots)].sort((a, b) => a - b), 'once a slot, in slot order');

    const bobs = await program.next(({ accountInfo }) => amount(accountInfo) === 350n);
    assert.ok(bobs.accountId.equals(kept.bobAccount));
    assert.ok(bobs.accountInfo.owner.equals(programId));

    for (const signature of [kept.minted, kept.transferred, kept.approved, kept.burnt, kept.closed]) {
      const entry = await logs.next((item) => item.signature === signature);
      assert.equal(entry.err, null);
      assert.ok(entry.logs.includes(`Program ${programId} success`), entry.logs.join('\n'));
    }
    await connection.removeAccountChangeListener(kept.listeners.account);
    await connection.removeProgramAccountChangeListener(kept.listeners.program);
    await connection.removeOnLogsListener(kept.listeners.logs);
  });
}
