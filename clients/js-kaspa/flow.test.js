// `kaspa-wasm32-sdk` against a running node: the main flow, step by step, in Borsh and in JSON.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { env, flow, until } from '../steps.js';
import { Example } from './addresses.js';
import {
  COINBASE_MATURITY, Connection, FEE, NETWORK, Person, SOMPI_PER_KASPA, caughtUp, control, mineUntil,
} from './world.js';

const sdk = createRequire(import.meta.url)('kaspa-wasm32-sdk');
const { step, run } = flow('kaspa_wasm_flow');
const BORSH_URL = env('HYDRANT_WRPC_BORSH_URL');
const JSON_URL = env('HYDRANT_WRPC_JSON_URL');
const BURN_ADDRESS = 'kaspa:qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqkx9awp4e';
// DAA scores after which the SDK lets a payment be spent. Its default on simnet is 100.
const USER_MATURITY = 2n;

const [miner, alice, bob] = ['1', '2', '3'].map((digit) => new Person(sdk, digit));
let node;
let json;
let upstream;
let processor;
let context;

const mine = async (blocks = 1) => {
  await node.mine(miner.address, blocks);
  return caughtUp(node, upstream);
};

async function pay(payer, to, amount, entries) {
  const generator = new sdk.Generator({
    networkId: NETWORK,
    entries: entries ?? (await node.spendable(payer)).slice(0, 10),
    outputs: [{ address: to.address, amount }],
    changeAddress: payer.address,
    priorityFee: FEE,
  });
  let id;
  for (let pending = await generator.next(); pending; pending = await generator.next()) {
    pending.sign([payer.key]);
    id = await pending.submit(node.rpc);
    assert.equal(id, pending.id);
  }
  return id;
}

// The text of an error: the SDK rejects with errors and with strings.
const fails = (call, text) => assert.rejects(call, (error) => {
  assert.match(String(error?.message ?? error), text);
  return true;
});

step('connections in both encodings', async () => {
  node = await Connection.open(sdk, BORSH_URL);
  json = await Connection.open(sdk, JSON_URL, sdk.Encoding.SerdeJson);
  upstream = await Connection.open(sdk, env('HYDRANT_UPSTREAM_URL'));
  await node.inbox('connect').next();
  for (const { rpc } of [node, json]) {
    const info = await rpc.getServerInfo();
    assert.equal(info.networkId, NETWORK);
    assert.equal(info.hasUtxoIndex, true);
    assert.equal((await rpc.getInfo()).isUtxoIndexed, true);
    await rpc.ping();
  }
});

step('the resolver names the node', async () => {
  const resolver = new sdk.Resolver({ urls: [BORSH_URL.replace('ws:', 'http:')] });
  assert.equal(await resolver.getUrl(sdk.Encoding.Borsh, NETWORK), BORSH_URL);
  assert.equal(await resolver.getUrl(sdk.Encoding.SerdeJson, NETWORK), JSON_URL);
});

step('blocks are mined through the node', async () => {
  await mine(COINBASE_MATURITY + 10);
  await json.mine(miner.address);
  await caughtUp(json, upstream);
  assert.equal((await node.rpc.getServerInfo()).isSynced, true);
});

step('UTXOs and balances of a mined address', async () => {
  const utxos = await node.utxos(miner);
  assert.ok(utxos.length >= COINBASE_MATURITY);
  assert.deepEqual(utxos, await upstream.utxos(miner));
  assert.deepEqual(utxos, await json.utxos(miner));
  const total = utxos.reduce((sum, { amount }) => sum + amount, 0n);
  for (const connection of [node, json]) {
    assert.equal(await connection.balance(miner), total);
    const { entries } = await connection.rpc.getBalancesByAddresses([miner.address, BURN_ADDRESS]);
    assert.deepEqual(entries.map(({ balance }) => balance), [total, 0n]);
  }
});

step('the chain is that of the upstream', async () => {
  for (const method of ['getBlockDagInfo', 'getSink', 'getSinkBlueScore', 'getCoinSupply', 'getBlockCount']) {
    const expected = await upstream.rpc[method]();
    assert.deepEqual(await node.rpc[method](), expected, method);
    assert.deepEqual(await json.rpc[method](), expected, method);
  }
  const { sink } = await node.rpc.getSink();
  const { block } = await node.rpc.getBlock({ hash: sink, includeTransactions: true });
  assert.equal(block.header.hash, sink);
});

step('errors are those of kaspad', async () => {
  const template = { payAddress: BURN_ADDRESS, extraData: [] };
  const unknown = { hash: '11'.repeat(32), includeTransactions: false };
  for (const { rpc } of [node, json]) {
    await fails(rpc.getBlockTemplate(template), /The address has an invalid prefix kaspa/);
    await fails(rpc.getBlock(unknown), /cannot find header 1111/);
    await fails(rpc.shutdown(), /Method unavailable in safe mode/);
  }
  // An address of another network is answered by its key.
  const mainnet = { address: miner.key.toKeypair().toAddress('mainnet').toString() };
  assert.equal((await node.rpc.getBalanceByAddress(mainnet)).balance, await node.balance(miner));
});

for (const [name, connection] of [['Borsh', () => node], ['JSON', () => json]]) {
  step(`notifications in ${name}`, async () => {
    const { rpc } = connection();
    await rpc.subscribeBlockAdded();
    await rpc.subscribeVirtualChainChanged(true);
    await rpc.subscribeVirtualDaaScoreChanged();
    await rpc.subscribeSinkBlueScoreChanged();
    await rpc.subscribeNewBlockTemplate();
    await rpc.subscribeUtxosChanged([miner.address]);
    for (const type of ['block-added', 'sink-blue-score-changed', 'new-block-template', 'virtual-daa-score-changed']) {
      await mineUntil(connection(), miner, type);
    }
    const { data } = await mineUntil(connection(), miner, 'utxos-changed');
    const ids = (await connection().utxos(miner)).map(({ id }) => id);
    for (const { outpoint } of data.added) assert.ok(ids.includes(`${outpoint.transactionId}:${outpoint.index}`));
    const score = await mine();
    await connection().inbox('virtual-daa-score-changed').next((event) => event.data.virtualDaaScore === score);
    const { sink } = await rpc.getSink();
    const chain = await connection().inbox('virtual-chain-changed')
      .next((event) => event.data.addedChainBlockHashes.includes(sink));
    assert.equal(chain.data.acceptedTransactionIds.at(-1).acceptingBlockHash, sink);
  });

  step(`an ended subscription in ${name} is silent`, async () => {
    await connection().rpc.unsubscribeUtxosChanged([miner.address]);
    const changed = connection().inbox('utxos-changed');
    await until('a block without a notification', async () => {
      const before = changed.items.length;
      const score = await mine();
      await connection().inbox('virtual-daa-score-changed').next((event) => event.data.virtualDaaScore === score);
      return changed.items.length === before;
    });
  });
}

step('a payment is signed, submitted and accepted', async () => {
  const id = await pay(miner, alice, 20n * SOMPI_PER_KASPA);
  const request = { transactionId: id, includeOrphanPool: true, filterTransactionPool: false };
  assert.ok((await node.rpc.getMempoolEntry(request)).mempoolEntry.fee > 0n);
  await mine();
  const [utxo] = await node.utxos(alice);
  assert.equal(utxo.id, `${id}:0`);
  assert.equal(utxo.amount, 20n * SOMPI_PER_KASPA);
  for (const person of [miner, alice]) assert.deepEqual(await node.utxos(person), await upstream.utxos(person));
});

step('an output is not spent twice', async () => {
  const entries = (await node.spendable(miner)).slice(0, 1);
  await pay(miner, bob, SOMPI_PER_KASPA, entries);
  await fails(pay(miner, bob, 2n * SOMPI_PER_KASPA, entries), /already spent by transaction/);
  await mine();
  assert.equal(await node.balance(bob), SOMPI_PER_KASPA);
});

const hasBalance = (sompi) => until(`a mature balance of ${sompi}`, async () => context.balance?.mature === sompi);

step('a UtxoProcessor follows an address', async () => {
  sdk.UtxoProcessor.setUserTransactionMaturityDAA(NETWORK, USER_MATURITY);
  processor = new sdk.UtxoProcessor({ rpc: node.rpc, networkId: NETWORK });
  const events = new Connection(sdk, processor);
  await processor.start();
  await events.inbox('utxo-proc-start').next();
  context = new sdk.UtxoContext({ processor });
  await context.trackAddresses([alice.address]);
  await mine(Number(USER_MATURITY));
  await hasBalance(20n * SOMPI_PER_KASPA);
  const id = await pay(miner, alice, 5n * SOMPI_PER_KASPA);
  await mine();
  await events.inbox('pending').next((event) => event.data.id.toString() === id);
  await mine(Number(USER_MATURITY));
  await events.inbox('maturity').next((event) => event.data.id.toString() === id);
  await hasBalance(25n * SOMPI_PER_KASPA);
  await processor.stop();
});

step('the example of the docs keeps its copy of UTXOs over a disconnection', async () => {
  const before = (await node.utxos(bob)).length;
  const example = new Example([bob.address]);
  await example.lines.next(([kind, , size]) => kind === 'snapshot' && size === before);
  // A payment in a block is accepted by the next chain block.
  const payBob = async () => {
    await pay(miner, bob, SOMPI_PER_KASPA);
    await mine(2);
  };
  await payBob();
  await example.lines.next(([kind, , size]) => kind === 'update' && size === before + 1);
  const connectAgain = await example.disconnect();
  await payBob();
  connectAgain();
  await example.lines.next(([kind, , size]) => kind === 'update' && size === before + 2);
  assert.equal(example.lines.items.filter(([kind]) => kind === 'snapshot').length, 1);
  assert.equal((await node.utxos(bob)).length, before + 2);
  example.close();
});

step('clients reconnect after a restart', async () => {
  const connections = [node, json];
  const connects = connections.map((connection) => connection.inbox('connect').items.length);
  await control('restart');
  for (const [at, connection] of connections.entries()) {
    await connection.inbox('disconnect').next();
    await until('a connection', async () => connection.inbox('connect').items.length > connects[at]);
    for (const person of [miner, alice]) assert.deepEqual(await connection.utxos(person), await upstream.utxos(person));
    await connection.rpc.subscribeUtxosChanged([miner.address]);
    await mineUntil(connection, miner, 'utxos-changed');
  }
});

run(async () => {
  for (const connection of [node, json, upstream]) await connection?.rpc.disconnect();
});
