// A proxy in the flow's own process, before a WebSocket over TLS.
//
// rpc-websockets knows a call only after the callback of its write. Over TLS Node.js calls that back in the next check phase
// of its event loop. A response on loopback can be read in the poll phase before that, and is lost. Through the proxy a call
// and its response take a poll phase each, so a check phase is always between the write and the read. A network does the same.

import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { pipeline } from 'node:stream';

// The URL of a proxy to `url`. It does not keep the process alive.
export async function proxied(url) {
  const { hostname: host, port, protocol } = new URL(url);
  const server = createServer((client) => {
    const node = connect({ host, port });
    for (const side of [client, node]) side.setNoDelay();
    pipeline(client, node, client, () => {}); // Either side's end is the other's.
  });
  server.listen(0, '127.0.0.1').unref();
  await once(server, 'listening');
  return `${protocol}//127.0.0.1:${server.address().port}`;
}
