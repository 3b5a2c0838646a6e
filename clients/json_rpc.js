// One call to the node's JSON-RPC, without any client.

import assert from 'node:assert/strict';
import { env } from './steps.js';

// The result of a method.
export async function call(method, ...params) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(env('HYDRANT_RPC_URL'), { method: 'POST', headers, body });
  const { result, error } = await response.json();
  assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
  return result;
}
