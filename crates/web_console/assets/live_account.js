// An account and its changes while they happen.
//
// In: an address. Out: the account, by accountSubscribe; an account with more data than a page should get with each
// change is read every two seconds instead, with the first bytes of its data only.
// Bounds: 64 KiB of data in a notification, 1 KiB of a larger account.

import { get, path } from './api.js';

const LIVE_BYTES_MAX = 64 * 1024;
const HEAD_BYTES = 1_024;
const POLL_MS = 2_000;

// Calls `onAccount(account, slot)` with the account, then with each change of it; an account that does not exist is
// null. Returns the path that was read.
export async function watchAccount(address, { pubsub, signal, onClose }, onAccount) {
  const head = path(['accounts', address], { commitment: 'processed', dataOffset: 0, dataLength: HEAD_BYTES });
  const first = await read(head, signal);
  const isLarge = (first.account?.space ?? 0) > LIVE_BYTES_MAX;
  const at = isLarge ? head : path(['accounts', address], { commitment: 'processed', encoding: 'jsonParsed' });
  const current = isLarge ? first : await read(at, signal);
  onAccount(current.account, current.slot);
  if (isLarge) {
    poll(at, current, { signal, onClose }, onAccount);
    return at;
  }
  let newest = current.slot;
  const config = { encoding: 'jsonParsed', commitment: 'processed' };
  const stop = pubsub.subscribe('account', [address, config], ({ context: { slot }, value }) => {
    if (slot < newest) return;
    newest = slot;
    // A closed account is sent as an empty one.
    const isClosed = value.lamports === 0 && value.space === 0;
    onAccount(isClosed ? null : value, slot);
  });
  onClose(stop);
  return at;
}

async function read(at, signal) {
  try {
    const { value, slot } = await get(at, { signal });
    return { account: value, slot };
  } catch (err) {
    if (err.status !== 404) throw err;
    return { account: null, slot: 0 };
  }
}

function poll(at, current, { signal, onClose }, onAccount) {
  let last = JSON.stringify(current.account, replacer);
  const timer = setInterval(async () => {
    if (document.hidden) return;
    const { account, slot } = await read(at, signal).catch(() => ({ account: undefined }));
    if (account === undefined) return;
    const text = JSON.stringify(account, replacer);
    if (text !== last) onAccount(account, slot);
    last = text;
  }, POLL_MS);
  onClose(() => clearInterval(timer));
}

const replacer = (_key, value) => (typeof value === 'bigint' ? value.toString() : value);

// The differences of two accounts, as { name, before, after } of text.
export function differences(before, after) {
  const [one, other] = [flatten(before), flatten(after)];
  const names = new Set([...one.keys(), ...other.keys()]);
  return [...names].filter((name) => one.get(name) !== other.get(name))
    .map((name) => ({ name, before: one.get(name), after: other.get(name) }));
}

function flatten(account) {
  const found = new Map();
  const add = (name, value) => {
    if (value !== null && typeof value === 'object') {
      Object.entries(value).forEach(([key, it]) => add(name ? `${name}.${key}` : key, it));
    } else {
      found.set(name, String(value));
    }
  };
  if (!account) return found;
  const { lamports, owner, executable, space, data } = account;
  add('', { lamports, owner, executable, space });
  if (Array.isArray(data)) add('data', data[0]);
  else add('', data.parsed?.info ?? data.parsed ?? {});
  return found;
}
