// The life of a token, once for each token program, with what is read of it on the way.
//
// `library` is `@solana-program/token` or `@solana-program/token-2022`: both have these names.

import assert from 'node:assert/strict';
import { generateKeyPairSigner } from '@solana/kit';
import { getCreateAccountInstruction } from '@solana-program/system';
import { CONFIRMED, alice, bob, listen, payer, rpc, rpcSubscriptions, same, send } from './world.js';

const DECIMALS = 2;
const MINT_SIZE = 82n;

export function tokenSteps(step, name, library, program, kept) {
  const read = async () => (await library.fetchToken(rpc, kept.aliceAccount, CONFIRMED)).data;
  const account = async (owner) =>
    (await library.findAssociatedTokenPda({ owner: owner.address, mint: kept.mint, tokenProgram: program }))[0];

  step(`${name}: create the mint`, async () => {
    const mint = await generateKeyPairSigner();
    kept.mint = mint.address;
    await send([
      getCreateAccountInstruction({
        payer, newAccount: mint, space: MINT_SIZE, programAddress: program,
        lamports: await rpc.getMinimumBalanceForRentExemption(MINT_SIZE).send(),
      }),
      library.getInitializeMint2Instruction({ mint: mint.address, decimals: DECIMALS, mintAuthority: payer.address }),
    ]);
    const { data } = await library.fetchMint(rpc, mint.address, CONFIRMED);
    assert.equal(data.decimals, DECIMALS);
    assert.equal(data.mintAuthority.value, payer.address);
  });

  step(`${name}: create two associated accounts`, async () => {
    const create = ({ address: owner }) =>
      library.getCreateAssociatedTokenInstructionAsync({ payer, owner, mint: kept.mint, tokenProgram: program });
    kept.created = await send(await Promise.all([create(alice), create(bob)]));
    kept.aliceAccount = await account(alice);
    kept.bobAccount = await account(bob);
    assert.equal((await read()).amount, 0n);
  });

  step(`${name}: subscribe to the account, the program and the logs`, async () => {
    kept.inbox = {
      account: await listen('account', rpcSubscriptions.accountNotifications(kept.aliceAccount, { ...CONFIRMED, encoding: 'jsonParsed' })),
      program: await listen('program', rpcSubscriptions.programNotifications(program, {
        ...CONFIRMED, encoding: 'base64',
        filters: [
          { memcmp: { offset: 0n, bytes: kept.mint, encoding: 'base58' } },
          { memcmp: { offset: 32n, bytes: bob.address, encoding: 'base58' } },
        ],
      })),
      logs: await listen('logs', rpcSubscriptions.logsNotifications({ mentions: [kept.aliceAccount] }, CONFIRMED)),
    };
  });

  step(`${name}: mint`, async () => {
    kept.minted = await send([library.getMintToCheckedInstruction({
      mint: kept.mint, token: kept.aliceAccount, mintAuthority: payer, amount: 1_000n, decimals: DECIMALS,
    })]);
    assert.equal((await read()).amount, 1_000n);
    const { value } = await rpc.getTokenSupply(kept.mint, CONFIRMED).send();
    assert.deepEqual(value, { amount: '1000', decimals: DECIMALS, uiAmount: 10, uiAmountString: '10' });
  });

  step(`${name}: transfer`, async () => {
    kept.transferred = await send([library.getTransferCheckedInstruction({
      source: kept.aliceAccount, mint: kept.mint, destination: kept.bobAccount, authority: alice, amount: 300n, decimals: DECIMALS,
    })]);
    assert.equal((await read()).amount, 700n);
    const { value } = await rpc.getTokenAccountBalance(kept.bobAccount, CONFIRMED).send();
    assert.equal(value.uiAmountString, '3');
  });

  step(`${name}: delegate, and the delegate spends`, async () => {
    kept.approved = await send([library.getApproveCheckedInstruction({
      source: kept.aliceAccount, mint: kept.mint, delegate: bob.address, owner: alice, amount: 200n, decimals: DECIMALS,
    })]);
    await send([library.getTransferCheckedInstruction({
      source: kept.aliceAccount, mint: kept.mint, destination: kept.bobAccount, authority: bob, amount: 50n, decimals: DECIMALS,
    })]);
    const { amount, delegate, delegatedAmount } = await read();
    assert.deepEqual([amount, delegate.value, delegatedAmount], [650n, bob.address, 150n]);
  });

  step(`${name}: accounts by owner, by delegate and by program`, async () => {
    const parsed = { ...CONFIRMED, encoding: 'jsonParsed' };
    const { value: owned } = await rpc.getTokenAccountsByOwner(alice.address, { mint: kept.mint }, parsed).send();
    assert.deepEqual(owned.map(({ pubkey }) => pubkey), [kept.aliceAccount]);
    const { data, space } = owned[0].account;
    assert.equal(data.program, kept.parsedAs);
    assert.equal(data.parsed.info.tokenAmount.amount, '650');
    assert.equal(data.parsed.info.delegatedAmount.amount, '150');
    assert.equal(data.space, space);
    const { value: delegated } = await rpc.getTokenAccountsByDelegate(bob.address, { programId: program }, parsed).send();
    assert.deepEqual(delegated.map(({ pubkey }) => pubkey), [kept.aliceAccount]);
    const holders = await rpc.getProgramAccounts(program, {
      ...CONFIRMED, encoding: 'base64', withContext: true, dataSlice: { offset: 64, length: 8 },
      filters: [{ memcmp: { offset: 0n, bytes: kept.mint, encoding: 'base58' } }],
    }).send();
    const amounts = holders.value.map(({ account: { data: [bytes] } }) => Buffer.from(bytes, 'base64').readBigUInt64LE());
    assert.deepEqual(amounts.sort(), [350n, 650n]);
    const { value: largest } = await rpc.getTokenLargestAccounts(kept.mint, CONFIRMED).send();
    assert.deepEqual(largest.map(({ address, amount }) => [address, amount]), [[kept.aliceAccount, '650'], [kept.bobAccount, '350']]);
  });

  step(`${name}: burn and close`, async () => {
    kept.burnt = await send([library.getBurnCheckedInstruction({
      account: kept.aliceAccount, mint: kept.mint, authority: alice, amount: 650n, decimals: DECIMALS,
    })]);
    assert.equal((await library.fetchMint(rpc, kept.mint, CONFIRMED)).data.supply, 350n);
    kept.closed = await send([library.getCloseAccountInstruction({ account: kept.aliceAccount, destination: bob.address, owner: alice })]);
    assert.equal((await library.fetchMaybeToken(rpc, kept.aliceAccount, CONFIRMED)).exists, false);
  });

  step(`${name}: every change was notified`, async () => {
    const { account: changes, program: accounts, logs } = kept.inbox;
    const closed = await changes.next(({ value }) => value.lamports === 0n);
    same(closed.value.data, ['', 'base64'], 'a closed account has no data left to parse');
    const amounts = changes.items.map(({ value }) => value.data.parsed?.info.tokenAmount.amount ?? null);
    assert.deepEqual(amounts.filter((now, at) => now !== amounts[at - 1]), ['1000', '700', '650', '0', null]);
    const bobs = await accounts.next(({ value }) => Buffer.from(value.account.data[0], 'base64').readBigUInt64LE(64) === 350n);
    assert.equal(bobs.value.pubkey, kept.bobAccount);
    for (const signature of [kept.minted, kept.transferred, kept.approved, kept.burnt, kept.closed]) {
      const entry = await logs.next(({ value }) => value.signature === signature);
      assert.equal(entry.value.err, null);
      assert.ok(entry.value.logs.includes(`Program ${program} success`));
    }
    for (const inbox of [changes, accounts, logs]) inbox.stop();
  });
}
