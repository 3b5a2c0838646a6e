// Shared by both flows: the people, and the calls that any WASM build of the Kaspa SDK has.
//
// Each build is a module of its own, with its own classes: `sdk` is the one whose flow runs.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { Inbox, env, until } from '../steps.js';

// The SDK looks for a browser's WebSocket. Its README names this package for Node.
globalThis.WebSocket = createRequire(import.meta.url)('websocket').w3cwebsocket;

export const NETWORK = 'simnet';
export const SOMPI_PER_KASPA = 100_000_000n;
// Sompi. These builds of the SDK compute a hundredth of the fees that kaspad 2.1 requires.
export const FEE = 1_000_000n;
// DAA scores after which a coinbase can be spent: 4 for the model of kaspad, 1,000 for kaspad on simnet.
export const COINBASE_MATURITY = Number(env('HYDRANT_COINBASE_MATURITY'));
// How long a notification may take before another block is mined for it.
const NOTIFICATION_MS = 1_000;

export class Person {
  constructor(sdk, digit) {
    this.key = new sdk.PrivateKey(digit.repeat(64));
    this.address = this.key.toKeypair().toAddress(NETWORK).toString();
  }
}

// A client with its notifications, by type.
export class Connection {
  constructor(sdk, rpc) {
    this.sdk = sdk;
    this.rpc = rpc;
    this.inboxes = new Map();
    rpc.addEventListener((event) => this.inbox(event.type).push(event));
  }

  static async open(sdk, url, encoding = sdk.Encoding.Borsh) {
    const rpc = new sdk.RpcClient({ url, encoding, networkId: NETWORK });
    const connection = new Connection(sdk, rpc);
    await rpc.connect({ timeoutDuration: 10_000, retryInterval: 100 });
    return connection;
  }

  inbox(type) {
    if (!this.inboxes.has(type)) this.inboxes.set(type, new Inbox(type));
    return this.inboxes.get(type);
  }

  async template(address) {
    return (await this.rpc.getBlockTemplate({ payAddress: address, extraData: [] })).block;
  }

  async submitBlock(block) {
    const { report } = await this.rpc.submitBlock({ block, allowNonDAABlocks: false });
    assert.equal(report.type, 'success');
  }

  async mine(address, blocks = 1) {
    for (let mined = 0; mined < blocks; mined += 1) await this.submitBlock(await this.template(address));
  }

  async balance(person) {
    return (await this.rpc.getBalanceByAddress({ address: person.address })).balance;
  }

  async utxos(person) {
    const { entries } = await this.rpc.getUtxosByAddresses([person.address]);
    const plain = entries.map(({ outpoint, amount, blockDaaScore, isCoinbase, scriptPublicKey }) => {
      const id = `${outpoint.transactionId}:${outpoint.index}`;
      return { id, amount, blockDaaScore, isCoinbase, script: scriptPublicKey.script };
    });
    return plain.sort((left, right) => left.id.localeCompare(right.id));
  }

  // The UTXOs that a transaction in the next block may spend, as the SDK takes them.
  async spendable(person) {
    const { virtualDaaScore } = await this.rpc.getServerInfo();
    const { entries } = await this.rpc.getUtxosByAddresses([person.address]);
    return entries.filter((entry) =>
      !entry.isCoinbase || entry.blockDaaScore + BigInt(COINBASE_MATURITY) <= virtualDaaScore);
  }

  async state() {
    const { virtualDaaScore } = await this.rpc.getServerInfo();
    return { virtualDaaScore, sink: (await this.rpc.getSink()).sink };
  }
}

// Waits until two connections see the same sink and virtual block. Returns its DAA score.
export function caughtUp(one, other) {
  return until('the node to reach its upstream', async () => {
    const [ours, theirs] = [await one.state(), await other.state()];
    return ours.sink === theirs.sink && ours.virtualDaaScore === theirs.virtualDaaScore && ours.virtualDaaScore;
  });
}

// Mines blocks until a notification comes: the SDK returns from subscribe before the node has the request.
export function mineUntil(connection, person, type, matches = () => true) {
  const inbox = connection.inbox(type);
  const from = inbox.items.length;
  const come = () => inbox.items.slice(from).find(matches);
  return until(`a notification ${type}`, async () => {
    await connection.mine(person.address);
    const end = Date.now() + NOTIFICATION_MS;
    while (!come() && Date.now() < end) await new Promise((resume) => setTimeout(resume, 10));
    return come();
  });
}

// Has the test restart the node: crates/hydrant/tests/it/kaspa_clients.rs.
export function control(command) {
  const [host, port] = env('HYDRANT_CONTROL').split(':');
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), host, () => socket.write(`${command}\n`));
    socket.setEncoding('utf8').once('error', reject).once('data', (reply) => {
      socket.destroy();
      if (reply === 'ok\n') resolve();
      else reject(new Error(reply));
    });
  });
}
