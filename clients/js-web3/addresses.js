// Sets of addresses: the example of docs/subscriptions.md, as it stands there, with the node's address put in.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Keypair, SystemProgram } from '@solana/web3.js';
import WebSocket from 'ws';
import { Inbox, env } from '../steps.js';
import { payer, send } from './world.js';

function exampleOfTheDocs() {
  const page = readFileSync(new URL('../../docs/subscriptions.md', import.meta.url), 'utf8');
  const [, example] = page.match(/### With web3\.js[^]*?```js\n([^]*?)```/);
  const here = example.replace('ws://127.0.0.1:8900', env('HYDRANT_WS_URL'));
  assert.notEqual(here, example);
  return here;
}

export function addressSteps(step) {
  step('addresses: the example of the docs hears of its wallets', async () => {
    const wallets = [Keypair.generate().publicKey, Keypair.generate().publicKey];
    const lines = new Inbox('addresses');
    const sockets = [];
    class Socket extends WebSocket {
      constructor(...args) {
        super(...args);
        sockets.push(this);
      }
    }
    const printed = { log: (...words) => lines.push(words) };
    new Function('wallets', 'WebSocket', 'console', exampleOfTheDocs())(wallets, Socket, printed);
    const [said, after] = await lines.next();
    assert.equal(said, 'subscribed after slot');
    const transfer = (toPubkey, lamports) =>
      send([SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports })], [payer]);
    for (const [at, wallet] of wallets.entries()) {
      await transfer(wallet, 1_000_000 + at);
      const told = await lines.next(([kind, , pubkey]) => kind === 'update' && pubkey === wallet.toBase58());
      assert.ok(told[1] > after, `${told} after ${after}`);
      assert.equal(told[3], 1_000_000 + at);
    }
    sockets.forEach((socket) => socket.close());
  });
}
