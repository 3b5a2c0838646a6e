// `helius-laserstream` against a running node: another client of the same stream, step by step.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { Inbox, env, flow } from '../steps.js';
import { call } from '../json_rpc.js';

const laserstream = createRequire(import.meta.url)('helius-laserstream');
const { step, run } = flow('laserstream_flow');
const SLOT_FINALIZED = 2;
const streams = [];

// A subscription: the stream, its updates and its errors.
async function subscribe(request) {
  const config = { endpoint: env('HYDRANT_GRPC_URL'), apiKey: 'any', maxReconnectAttempts: 0, replay: false };
  const [updates, errors] = [new Inbox('updates'), new Inbox('errors')];
  const stream = await laserstream.subscribe(
    config, request, (update) => updates.push(update), (error) => errors.push(error),
  );
  streams.push(stream);
  return { stream, updates, errors };
}

step('an airdrop as account and transaction', async () => {
  const to = (await call('getIdentity')).identity;
  const { updates } = await subscribe({
    accounts: { account: { account: [to], owner: [], filters: [] } },
    transactions: { transaction: { accountInclude: [to], accountExclude: [], accountRequired: [], vote: false } },
    slots: { slot: {} },
    commitment: laserstream.CommitmentLevel.PROCESSED,
  });
  await updates.next((update) => update.slot);
  const signature = await call('requestAirdrop', to, 1_000_000);
  const { transaction } = await updates.next((update) => update.transaction);
  const sent = Buffer.from(transaction.transaction.signature);
  const { account } = await updates.next(
    (update) => update.account && Buffer.from(update.account.account.txnSignature ?? []).equals(sent),
  );
  assert.equal(Number(account.slot), Number(transaction.slot));
  const status = await call('getSignatureStatuses', [signature]);
  assert.equal(status.value[0].slot, Number(transaction.slot));
});

step('filters are replaced', async () => {
  const { stream, updates } = await subscribe({ blocksMeta: { meta: {} } });
  await updates.next((update) => update.blockMeta);
  await stream.write({ slots: { slot: { filterByCommitment: true } }, commitment: laserstream.CommitmentLevel.FINALIZED });
  const { slot } = await updates.next((update) => update.slot);
  assert.equal(slot.status, SLOT_FINALIZED);
});

step('a compressed filter', async () => {
  const to = (await call('getIdentity')).identity;
  const set = new laserstream.CompressedAccountFilterSet(10);
  set.insert(to);
  const { updates } = await subscribe({ accounts: { compressed: set.toAccountFilter() }, slots: { slot: {} } });
  await updates.next((update) => update.slot);
  await call('requestAirdrop', to, 1_000_001);
  await updates.next((update) => update.account && update.filters.includes('compressed'));
});

step('an invalid filter says why', async () => {
  const { errors } = await subscribe({ accounts: { bad: { account: ['x'], owner: [], filters: [] } } });
  assert.match(String((await errors.next()).message), /is no address/);
});

run(async () => {
  for (const stream of streams) stream.cancel();
  laserstream.shutdownAllStreams();
});
