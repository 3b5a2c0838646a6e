// `@kasplex/kiwi`, a wallet library with its own build of the SDK (1.1.0), against a running node.

import assert from 'node:assert/strict';
import { KaspaTransaction, Kiwi, Rpc, Tx, Wallet, Wasm } from '@kasplex/kiwi';
import { env, flow } from '../steps.js';
import { COINBASE_MATURITY, Connection, FEE, SOMPI_PER_KASPA, caughtUp, mineUntil } from './world.js';

const { step, run } = flow('kiwi_flow');
// The library has mainnet and testnet only. A node of simnet answers about a key, whatever the prefix of its address.
const network = Wasm.NetworkType.Testnet;
const person = (wallet) => ({
  wallet,
  address: wallet.toAddress(network).toString(),
  simnetAddress: wallet.toAddress(Wasm.NetworkType.Simnet).toString(),
});
const miner = person(Wallet.fromPrivateKey('1'.repeat(64)));
const alice = person(Wallet.fromMnemonic(
  'hunt bitter praise lift buyer topic crane leopard uniform network inquiry over grain pass match crush marine ' +
    'strike doll relax fortune trumpet sunny silk',
));
const other = person(Wallet.fromPrivateKey('3'.repeat(64)));
let node;
let upstream;

step('the wallet connects', async () => {
  Kiwi.setNetwork(network);
  const rpc = Rpc.setInstance(network, env('HYDRANT_WRPC_BORSH_URL'));
  await rpc.connect();
  node = new Connection(Wasm, rpc.client);
  upstream = await Connection.open(Wasm, env('HYDRANT_UPSTREAM_URL'));
  assert.equal((await rpc.client.getServerInfo()).networkId, 'simnet');
});

step('UTXOs of a mined address', async () => {
  await node.mine(miner.simnetAddress, 10);
  // The wallet does not know which coinbases are too young to be spent: later ones are not its own.
  await node.mine(other.simnetAddress, COINBASE_MATURITY + 1);
  await caughtUp(node, upstream);
  const utxos = await node.utxos(miner);
  assert.equal(utxos.length, 10);
  assert.deepEqual(utxos, await upstream.utxos(miner));
  assert.equal((await Tx.Entries.entries(miner.address)).length, utxos.length);
});

step('a payment is notified to its receiver', async () => {
  const amount = 20n * SOMPI_PER_KASPA;
  const key = new Wasm.PrivateKey(miner.wallet.toPrivateKey());
  const id = await KaspaTransaction.transferKas(key, alice.address, amount, FEE);
  assert.match(id, /^[0-9a-f]{64}$/);
  await node.rpc.subscribeUtxosChanged([alice.address, other.address]);
  await mineUntil(node, { address: other.simnetAddress }, 'utxos-changed');
  await caughtUp(node, upstream);
  assert.equal(await node.balance(alice), amount);
  const [utxo] = await node.utxos(alice);
  assert.equal(utxo.id, `${id}:0`);
  for (const person of [miner, alice]) assert.deepEqual(await node.utxos(person), await upstream.utxos(person));
});

run(async () => {
  for (const connection of [node, upstream]) await connection?.rpc.disconnect();
});
