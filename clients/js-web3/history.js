// Reading back what the earlier steps did: by signature, by address, by block, parsed and not.

import assert from 'node:assert/strict';
import { until } from '../steps.js';
import { alice, airdrop, bob, connection, payer, transactionOf } from './world.js';

export function historySteps(step, token) {
  step(`history: a ${token.parsedAs} transaction, raw and parsed`, async () => {
    const raw = await transactionOf(token.transferred);
    assert.equal(raw.meta.err, null);
    assert.equal(raw.transaction.signatures[0], token.transferred);
    const balance = (list, account) => {
      const keys = raw.transaction.message.getAccountKeys().staticAccountKeys;
      return list.find(({ accountIndex }) => keys[accountIndex].equals(account));
    };
    assert.equal(balance(raw.meta.preTokenBalances, token.aliceAccount).uiTokenAmount.amount, '1000');
    const after = balance(raw.meta.postTokenBalances, token.bobAccount);
    assert.equal(after.uiTokenAmount.amount, '300');
    assert.deepEqual([after.mint, after.owner], [token.mint.toBase58(), bob.publicKey.toBase58()]);
    assert.equal(typeof raw.blockTime, 'number');

    const parsed = await connection.getParsedTransaction(token.transferred, { maxSupportedTransactionVersion: 0 });
    const instruction = parsed.transaction.message.instructions[0];
    assert.equal(instruction.program, 'spl-token', 'both token programs are parsed under one name');
    assert.equal(instruction.parsed.type, 'transferChecked');
    assert.deepEqual(instruction.parsed.info.tokenAmount, { amount: '300', decimals: 2, uiAmount: 3, uiAmountString: '3' });
    assert.equal(instruction.parsed.info.authority, alice.publicKey.toBase58());
    assert.ok(parsed.transaction.message.accountKeys.some(({ pubkey, signer }) => pubkey.equals(payer.publicKey) && signer));

    const kinds = [];
    for (const each of await connection.getParsedTransactions([token.minted, token.approved, token.burnt, token.closed], { maxSupportedTransactionVersion: 0 })) {
      kinds.push(each.transaction.message.instructions[0].parsed.type);
    }
    assert.deepEqual(kinds, ['mintTo', 'approve', 'burn', 'closeAccount']);
  });

  step(`history: signatures of a ${token.parsedAs} account, newest first, in pages`, async () => {
    const all = await connection.getSignaturesForAddress(token.aliceAccount, {}, 'confirmed');
    const signatures = all.map(({ signature }) => signature);
    const known = [token.closed, token.burnt, token.approved, token.transferred, token.minted];
    assert.deepEqual(signatures.filter((each) => known.includes(each)), known);
    assert.deepEqual(all.map(({ slot }) => slot), all.map(({ slot }) => slot).sort((a, b) => b - a));
    const page = await connection.getSignaturesForAddress(
      token.aliceAccount, { before: signatures[0], until: signatures[3], limit: 10 }, 'confirmed',
    );
    assert.deepEqual(page.map(({ signature }) => signature), signatures.slice(1, 3));
    const [one] = await connection.getSignaturesForAddress(token.aliceAccount, { limit: 1 }, 'confirmed');
    assert.equal(one.signature, signatures[0]);
  });

  step(`history: the block of a ${token.parsedAs} transaction`, async () => {
    const { slot } = await transactionOf(token.minted);
    const block = await connection.getBlock(slot, { commitment: 'confirmed', maxSupportedTransactionVersion: 0 });
    assert.ok(block.transactions.some(({ transaction }) => transaction.signatures[0] === token.minted));
    assert.equal(block.parentSlot, slot - 1);
    const { signatures } = await connection.getBlockSignatures(slot, 'confirmed');
    assert.ok(signatures.includes(token.minted));
    const parsed = await connection.getParsedBlock(slot, { commitment: 'confirmed', maxSupportedTransactionVersion: 0 });
    assert.equal(parsed.blockhash, block.blockhash);
    const accounts = await connection.getParsedBlock(slot, {
      commitment: 'confirmed', transactionDetails: 'accounts', maxSupportedTransactionVersion: 0,
    });
    assert.ok(accounts.transactions[0].transaction.accountKeys.length > 0);
    assert.equal(await connection.getBlockTime(slot), block.blockTime);
    assert.ok((await connection.getBlocks(slot, slot + 5, 'confirmed')).includes(slot));
  });
}

export function finalizedSteps(step, token) {
  step('history: what was confirmed becomes final', async () => {
    const { slot } = await transactionOf(token.closed);
    const { value } = await until('the status to be finalized', async () => {
      const status = await connection.getSignatureStatus(token.closed, { searchTransactionHistory: true });
      return status.value.confirmationStatus === 'finalized' && status;
    });
    assert.equal(value.slot, slot);
    assert.deepEqual((await connection.getTransaction(token.closed, { commitment: 'finalized' })).slot, slot);
    assert.ok((await connection.getBlock(slot, { commitment: 'finalized', transactionDetails: 'none', rewards: false, maxSupportedTransactionVersion: 0 })).blockhash);
  });

  step('history: counts, fees and blockhashes', async () => {
    assert.ok((await connection.getTransactionCount()) > 10);
    const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
    assert.equal((await connection.isBlockhashValid(blockhash, { commitment: 'confirmed' })).value, true);
    const height = (await connection.getEpochInfo()).blockHeight;
    assert.ok(lastValidBlockHeight - height <= 150 && lastValidBlockHeight > height, `${lastValidBlockHeight} ${height}`);
    const fees = await connection.getRecentPrioritizationFees();
    assert.ok(fees.length > 0 && fees.every(({ slot, prioritizationFee }) => slot > 0 && prioritizationFee >= 0));
    const many = await connection.getMultipleAccountsInfo([payer.publicKey, token.mint, token.aliceAccount]);
    assert.deepEqual(many.map((account) => account?.owner.toBase58() ?? null), ['11111111111111111111111111111111', token.programId.toBase58(), null]);
    assert.ok(await airdrop(alice.publicKey, 1));
  });
}
