// `@triton-one/yellowstone-grpc` against a running node: the main flow, step by step.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { env, flow, until } from '../steps.js';
import { call } from '../json_rpc.js';

const yellowstone = createRequire(import.meta.url)('@triton-one/yellowstone-grpc');
const { default: Client, CommitmentLevel, CompressedAccountFilterSet, SlotStatus } = yellowstone;
const { step, run } = flow('grpc_flow');
const SYSTEM = '11111111111111111111111111111111';
const client = new Client(env('HYDRANT_GRPC_URL'), undefined, undefined, { enabled: false });
const streams = [];

// A request with these filters and no others.
function request(filters) {
  return {
    accounts: {}, slots: {}, transactions: {}, transactionsStatus: {}, blocks: {}, blocksMeta: {}, entry: {},
    accountsDataSlice: [], ...filters,
  };
}

const transactions = (filter) => ({
  accountInclude: [], accountExclude: [], accountRequired: [], ...filter,
});

// A subscription, and its updates so far.
async function subscribe(filters) {
  const stream = await client.subscribe();
  const seen = { stream, updates: [], error: undefined };
  streams.push(stream);
  stream.on('data', (update) => seen.updates.push(update));
  stream.on('error', (error) => { seen.error = error; });
  await write(seen, request(filters));
  return seen;
}

function write(seen, message) {
  return new Promise((resolve, reject) => {
    seen.stream.write(message, (error) => (error ? reject(error) : resolve()));
  });
}

const find = (seen, what, probe) => until(what, async () => seen.updates.find(probe));

step('calls', async () => {
  await client.connect();
  assert.equal((await client.ping(3)).count, 3);
  const slot = Number((await client.getSlot(CommitmentLevel.PROCESSED)).slot);
  assert.ok(slot > 0);
  assert.ok(Number((await client.getBlockHeight()).blockHeight) > 0);
  const { blockhash } = await client.getLatestBlockhash();
  assert.ok((await client.isBlockhashValid(blockhash)).valid);
  assert.equal(JSON.parse((await client.getVersion()).version).version.package, 'hydrant');
  assert.ok(Number((await client.subscribeReplayInfo()).firstAvailable) <= slot);
});

step('an airdrop as account, transaction and status', async () => {
  const to = (await call('getIdentity')).identity;
  const seen = await subscribe({
    accounts: { account: { account: [to], owner: [], filters: [] } },
    transactions: { transaction: transactions({ accountInclude: [to], vote: false }) },
    transactionsStatus: { status: transactions({ accountRequired: [to], vote: false }) },
    commitment: CommitmentLevel.PROCESSED,
  });
  // The request builder of the client sets fields besides the ping.
  await write(seen, request({ ping: { id: 1 }, commitment: CommitmentLevel.PROCESSED }));
  await find(seen, 'a pong', (update) => update.pong?.id === 1);
  const signature = await call('requestAirdrop', to, 1_000_000);
  const { transaction } = await find(seen, 'the transaction', (update) => update.transaction);
  const encoded = yellowstone.txEncode.encode(
    transaction.transaction, yellowstone.txEncode.encoding.Json, 255, true,
  );
  assert.equal(encoded.transaction.signatures[0], signature);
  assert.equal(encoded.meta.err, null);
  const sent = Buffer.from(transaction.transaction.signature);
  const written = (update) =>
    update.account && Buffer.from(update.account.account.txnSignature ?? []).equals(sent);
  const { account } = await find(seen, 'the account', written);
  assert.ok(Number(account.account.writeVersion) > 0);
  assert.ok(seen.updates.findIndex(written) < seen.updates.findIndex((update) => update.transaction));
  await find(seen, 'the status', (update) => update.transactionStatus);
});

step('slots and metadata of blocks, confirmed', async () => {
  const seen = await subscribe({
    slots: { slot: { filterByCommitment: true } },
    blocksMeta: { meta: {} },
    commitment: CommitmentLevel.CONFIRMED,
  });
  const { slot } = await find(seen, 'a slot', (update) => update.slot && seen.updates.length > 6);
  assert.equal(slot.status, SlotStatus.SLOT_CONFIRMED);
  const of = Number(slot.slot);
  const at = seen.updates.findIndex((update) => Number(update.blockMeta?.slot) === of);
  assert.ok(at >= 0 && at < seen.updates.findIndex((update) => Number(update.slot?.slot) === of));
  assert.ok(Number(seen.updates[at].blockMeta.executedTransactionCount) > 0);
});

step('a compressed filter, replaced by another', async () => {
  const to = (await call('getIdentity')).identity;
  const set = new CompressedAccountFilterSet(10);
  set.insert(to);
  const seen = await subscribe({ accounts: { first: set.toAccountFilter() } });
  await write(seen, request({ ping: { id: 1 } }));
  await find(seen, 'a pong', (update) => update.pong?.id === 1);
  await call('requestAirdrop', to, 1_000_001);
  await find(seen, 'the account', (update) => update.account && update.filters[0] === 'first');
  const owned = { account: [], owner: [SYSTEM], filters: [{ lamports: { gt: '0' } }] };
  await write(seen, request({ accounts: { second: owned } }));
  await write(seen, request({ ping: { id: 2 } }));
  await find(seen, 'a pong', (update) => update.pong?.id === 2);
  await call('requestAirdrop', to, 1_000_002);
  await find(seen, 'the account', (update) => update.account && update.filters[0] === 'second');
});

step('blocks from a slot in the past', async () => {
  const { firstAvailable } = await client.subscribeReplayInfo();
  const seen = await subscribe({
    blocks: { block: { accountInclude: [], includeAccounts: true } },
    commitment: CommitmentLevel.PROCESSED,
    fromSlot: String(Number(firstAvailable) + 3),
  });
  const { block } = await find(seen, 'a block', (update) => update.block);
  assert.ok(Number(block.slot) >= Number(firstAvailable) + 3);
  assert.ok(block.accounts.length >= 4);
  assert.equal(Number(block.updatedAccountCount), block.accounts.length);
});

const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest();

// The root of a Merkle tree as Solana has it: leaves have the prefix 0, inner nodes 1.
function merkleRoot(items) {
  let level = items.map((item) => sha256(Buffer.of(0), item));
  while (level.length > 1) {
    const pairs = [];
    for (let at = 0; at < level.length; at += 2) {
      pairs.push(sha256(Buffer.of(1), level[at], level[at + 1] ?? level[at]));
    }
    level = pairs;
  }
  return level[0];
}

step('entries are a chain of hashes from block to block', async () => {
  const { firstAvailable } = await client.subscribeReplayInfo();
  const seen = await subscribe({
    blocks: { block: { accountInclude: [], includeTransactions: true, includeEntries: true } },
    entry: { entry: {} },
    commitment: CommitmentLevel.PROCESSED,
    fromSlot: String(Number(firstAvailable) + 1),
  });
  const blocks = () => seen.updates.filter((update) => update.block).map((update) => update.block);
  await until('20 blocks', async () => blocks().length >= 20);
  let last;
  for (const block of blocks().slice(0, 20)) {
    const sent = seen.updates.filter((update) => update.entry?.slot === block.slot);
    assert.equal(sent.length, Number(block.entriesCount));
    assert.equal(block.entries.length, sent.length);
    const transactions = block.transactions
      .sort((one, two) => Number(one.index) - Number(two.index))
      .map(({ transaction }) => transaction.signatures.map((it) => Buffer.from(it)));
    for (const entry of block.entries.sort((one, two) => Number(one.index) - Number(two.index))) {
      const first = Number(entry.startingTransactionIndex);
      const own = transactions.slice(first, first + Number(entry.executedTransactionCount)).flat();
      const hash = Buffer.from(entry.hash);
      if (last !== undefined) {
        let expected = last;
        for (let n = 1; n < Number(entry.numHashes); n += 1) expected = sha256(expected);
        expected = own.length ? sha256(expected, merkleRoot(own)) : sha256(expected);
        assert.deepEqual(hash, expected, `entry ${entry.index} of slot ${block.slot}`);
      }
      last = hash;
    }
  }
});

step('an invalid filter says why', async () => {
  const seen = await subscribe({ accounts: { bad: { account: ['x'], owner: [], filters: [] } } });
  const error = await until('an error', async () => seen.error);
  assert.match(error.cause.message, /is no address/);
});

run(async () => {
  for (const stream of streams) stream.destroy();
  // The client sometimes keeps a destroyed stream open, and with it the process.
  setTimeout(() => process.exit(), 2_000).unref();
});
