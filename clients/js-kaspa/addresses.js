// Changes of addresses with positions: the example of docs/kaspa_addresses.md with the URL of the node. It uses a plain
// WebSocket, because the SDK does not have these methods.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Inbox, env } from '../steps.js';

function exampleOfTheDocs() {
  const page = readFileSync(new URL('../../docs/kaspa_addresses.md', import.meta.url), 'utf8');
  const [, example] = page.match(/## With JavaScript[^]*?```js\n([^]*?)```/);
  const here = example.replace('ws://127.0.0.1:18110', env('HYDRANT_WRPC_JSON_URL'));
  assert.notEqual(here, example);
  return here;
}

// Runs the example. `lines` has the words of each printed line: the kind, the DAA score, the number of UTXOs.
export class Example {
  constructor(addresses) {
    this.lines = new Inbox('lines of the example');
    this.sockets = [];
    this.retries = new Inbox('its next connection');
    const { sockets } = this;
    function Socket(url) {
      const socket = new globalThis.WebSocket(url);
      sockets.push(socket);
      return socket;
    }
    const printed = { log: (...words) => this.lines.push(words) };
    // The test decides when it connects again.
    const later = (connect) => this.retries.push(connect);
    const example = new Function('addresses', 'WebSocket', 'console', 'setTimeout', exampleOfTheDocs());
    example(addresses, Socket, printed, later);
  }

  // Ends its first connection. Returns the function that connects again.
  async disconnect() {
    this.sockets[0].close();
    return this.retries.next();
  }

  // Ends its last connection.
  close() {
    this.sockets.at(-1).close();
  }
}
