// The node's API over HTTP: REST below /v1/, JSON-RPC by POST, and /metrics.
//
// Out: values, or an ApiError with the node's own message. Nothing is retried here.

import { parse } from './json.js';

export class ApiError extends Error {
  constructor(message, { status, code } = {}) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// The path of a REST request, with its parameters.
export function path(segments, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined));
  const route = `/v1/${segments.map(encodeURIComponent).join('/')}`;
  return query.size > 0 ? `${route}?${query}` : route;
}

// The value at a path, and the slot at which it is true.
export async function get(at, { signal } = {}) {
  const response = await send(at, { headers: { accept: 'application/json' }, signal });
  const value = parse(await response.text());
  if (!response.ok) {
    const { message, code } = value.error ?? {};
    throw new ApiError(message ?? `HTTP ${response.status}`, { status: response.status, code });
  }
  return { value, slot: Number(response.headers.get('hydrant-slot')) };
}

// The result of a JSON-RPC method.
export async function call(method, params, { signal } = {}) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const headers = { 'content-type': 'application/json' };
  const response = await send('/', { method: 'POST', headers, body, signal });
  const text = await response.text();
  let reply;
  try {
    reply = parse(text);
  } catch {
    throw new ApiError(text.trim() || `HTTP ${response.status}`, { status: response.status });
  }
  if (reply.error) throw new ApiError(reply.error.message, { status: response.status, code: reply.error.code });
  return reply.result;
}

// The text of /metrics.
export async function metricsText({ signal } = {}) {
  const response = await send('/metrics', { signal });
  const text = await response.text();
  if (!response.ok) throw new ApiError(text.trim(), { status: response.status });
  return text;
}

async function send(at, options) {
  try {
    return await fetch(at, options);
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new ApiError('The node does not respond.');
  }
}
