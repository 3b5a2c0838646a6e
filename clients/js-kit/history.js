// Reading back what the earlier steps did: by signature, by address, by block, parsed and not.

import assert from 'node:assert/strict';
import { until } from '../steps.js';
import { CONFIRMED, alice, bob, payer, rpc, same, transactionOf } from './world.js';

const READ = { commitment: 'confirmed', maxSupportedTransactionVersion: 0 };

export function historySteps(step, token) {
  const name = token.parsedAs;

  step(`history: a ${name} transaction, raw and parsed`, async () => {
    const raw = await transactionOf(token.transferred);
    const { accountKeys } = raw.transaction.message;
    const balance = (list, account) => list.find(({ accountIndex }) => accountKeys[accountIndex] === account);
    assert.equal(balance(raw.meta.preTokenBalances, token.aliceAccount).uiTokenAmount.amount, '1000');
    const after = balance(raw.meta.postTokenBalances, token.bobAccount);
    assert.deepEqual([after.uiTokenAmount.amount, after.mint, after.owner, after.programId], ['300', token.mint, bob.address, token.program]);

    const parsed = await transactionOf(token.transferred, { encoding: 'jsonParsed' });
    const { parsed: instruction, programId } = parsed.transaction.message.instructions[0];
    assert.equal(programId, token.program);
    assert.equal(instruction.type, 'transferChecked');
    same(instruction.info.tokenAmount, { amount: '300', decimals: 2, uiAmount: 3, uiAmountString: '3' });
    assert.equal(instruction.info.authority, alice.address);
    const created = await transactionOf(token.created, { encoding: 'jsonParsed' });
    const inner = created.meta.innerInstructions.flatMap(({ instructions }) => instructions.map((each) => each.parsed?.type));
    assert.ok(inner.includes('initializeAccount3'), `${inner}`);
    const kinds = [];
    for (const signature of [token.minted, token.approved, token.burnt, token.closed]) {
      const each = await transactionOf(signature, { encoding: 'jsonParsed' });
      kinds.push(each.transaction.message.instructions[0].parsed.type);
    }
    assert.deepEqual(kinds, ['mintToChecked', 'approveChecked', 'burnChecked', 'closeAccount']);
    const [wire] = (await transactionOf(token.minted, { encoding: 'base64' })).transaction;
    assert.ok(Buffer.from(wire, 'base64').length > 100);
  });

  step(`history: signatures of a ${name} account, newest first, in pages`, async () => {
    const all = await rpc.getSignaturesForAddress(token.aliceAccount, CONFIRMED).send();
    const signatures = all.map(({ signature }) => signature);
    const known = [token.closed, token.burnt, token.approved, token.transferred, token.minted, token.created];
    assert.deepEqual(signatures.filter((each) => known.includes(each)), known);
    const page = await rpc.getSignaturesForAddress(token.aliceAccount, {
      ...CONFIRMED, before: signatures[0], until: signatures[3], limit: 10,
    }).send();
    assert.deepEqual(page.map(({ signature }) => signature), signatures.slice(1, 3));
  });

  step(`history: the block of a ${name} transaction, at each level of detail`, async () => {
    const { slot } = await transactionOf(token.minted);
    const full = await rpc.getBlock(slot, { ...READ, encoding: 'json' }).send();
    assert.ok(full.transactions.some(({ transaction }) => transaction.signatures[0] === token.minted));
    assert.equal(full.parentSlot, slot - 1n);
    const { signatures } = await rpc.getBlock(slot, { ...READ, transactionDetails: 'signatures', rewards: false }).send();
    assert.ok(signatures.includes(token.minted));
    const accounts = await rpc.getBlock(slot, { ...READ, transactionDetails: 'accounts' }).send();
    const mine = accounts.transactions.find(({ transaction }) => transaction.signatures[0] === token.minted);
    assert.ok(mine.transaction.accountKeys.some(({ pubkey, signer }) => pubkey === payer.address && signer));
    const none = await rpc.getBlock(slot, { ...READ, transactionDetails: 'none', rewards: false }).send();
    assert.equal(none.blockhash, full.blockhash);
    assert.equal(await rpc.getBlockTime(slot).send(), full.blockTime);
    assert.ok((await rpc.getBlocks(slot, slot + 5n, CONFIRMED).send()).includes(slot));
    assert.deepEqual(await rpc.getBlocksWithLimit(slot, 1, CONFIRMED).send(), [slot]);
  });
}

export function finalizedSteps(step, token) {
  step('history: what was confirmed becomes final', async () => {
    const { slot } = await transactionOf(token.closed);
    await until('the slot to be finalized', async () => (await rpc.getSlot({ commitment: 'finalized' }).send()) >= slot);
    const { value: [status] } = await rpc.getSignatureStatuses([token.closed], { searchTransactionHistory: true }).send();
    assert.deepEqual([status.slot, status.confirmationStatus, status.confirmations], [slot, 'finalized', null]);
    assert.equal((await transactionOf(token.closed, { commitment: 'finalized' })).slot, slot);
  });

  step('history: many accounts, blockhashes, fees, rewards', async () => {
    const { value: many } = await rpc.getMultipleAccounts([payer.address, token.mint, token.aliceAccount], { ...CONFIRMED, encoding: 'base64' }).send();
    assert.deepEqual(many.map((each) => each?.owner ?? null), ['11111111111111111111111111111111', token.program, null]);
    const { value: latest } = await rpc.getLatestBlockhash(CONFIRMED).send();
    assert.equal((await rpc.isBlockhashValid(latest.blockhash, CONFIRMED).send()).value, true);
    const fees = await rpc.getRecentPrioritizationFees([payer.address]).send();
    assert.ok(fees.length > 0);
    await assert.rejects(rpc.getSlot({ minContextSlot: 1n << 50n }).send(), (error) => error.context.contextSlot > 0n);
  });
}
