// What the node says of itself and of its chain.

import assert from 'node:assert/strict';
import { Connection, PublicKey } from '@solana/web3.js';
import { until } from '../steps.js';
import { connection, rpcUrl } from './world.js';

export function nodeSteps(step) {
  step('node: version, genesis, cluster', async () => {
    const version = await connection.getVersion();
    assert.match(version['solana-core'], /^\d+\.\d+\.\d+/);
    assert.equal(typeof version['feature-set'], 'number');
    assert.equal(new PublicKey(await connection.getGenesisHash()).toBytes().length, 32);
    const nodes = await connection.getClusterNodes();
    assert.equal(nodes.length, 1);
    new PublicKey(nodes[0].pubkey);
  });

  step('node: slots, epoch and their leaders', async () => {
    const info = await connection.getEpochInfo();
    assert.ok(info.slotIndex < info.slotsInEpoch, JSON.stringify(info));
    const schedule = await connection.getEpochSchedule();
    assert.equal(schedule.slotsPerEpoch, info.slotsInEpoch);
    assert.equal(schedule.getEpoch(info.absoluteSlot), info.epoch);
    const leader = await connection.getSlotLeader();
    const [first] = await connection.getSlotLeaders(info.absoluteSlot, 1);
    assert.equal(first.toBase58(), leader);
    assert.ok((await connection.getLeaderSchedule())[leader].length > 0);
    assert.ok((await connection.getFirstAvailableBlock()) <= info.absoluteSlot);
    assert.ok((await connection.getMinimumLedgerSlot()) <= info.absoluteSlot);
    const processed = await connection.getSlot('processed');
    assert.ok(processed >= (await connection.getSlot('finalized')));
  });

  step('node: a required slot is served, or refused by name', async () => {
    const slot = await connection.getSlot();
    assert.ok((await connection.getSlot({ commitment: 'confirmed', minContextSlot: slot })) >= slot);
    const ahead = connection.getSlot({ commitment: 'confirmed', minContextSlot: 2 ** 50 });
    await assert.rejects(ahead, (error) => error.code === -32016 && error.data.contextSlot >= slot);
    // Reads that never go back: each answer's slot is required of the next.
    let newest = 0;
    const echo = (input, init, send) => {
      const headers = { ...init.headers, 'hydrant-min-slot': String(newest) };
      send(input, { ...init, headers });
    };
    const reading = async (input, init) => {
      const answer = await fetch(input, init);
      newest = Math.max(newest, Number(answer.headers.get('hydrant-slot')));
      return answer;
    };
    const monotonic = new Connection(rpcUrl, { commitment: 'confirmed', fetch: reading, fetchMiddleware: echo });
    for (let last = 0, round = 0; round < 20; round++) {
      const { context } = await monotonic.getBalanceAndContext(PublicKey.default);
      assert.ok(context.slot >= last && newest >= context.slot);
      last = context.slot;
    }
  });

  step('node: votes, production, performance', async () => {
    const { current, delinquent } = await connection.getVoteAccounts();
    const leader = await connection.getSlotLeader();
    assert.deepEqual([...current, ...delinquent].map(({ nodePubkey }) => nodePubkey), [leader]);
    await until('a finished leader slot', async () => {
      const { value } = await connection.getBlockProduction();
      const [slots, blocks] = value.byIdentity[leader] ?? [0, 0];
      return blocks > 0 && slots >= blocks;
    });
    assert.ok(Array.isArray(await connection.getRecentPerformanceSamples(5)));
  });

  step('node: inflation, supply, rent, stake', async () => {
    const governor = await connection.getInflationGovernor();
    assert.equal(typeof governor.terminal, 'number');
    assert.equal(typeof (await connection.getInflationRate()).total, 'number');
    const { value: supply } = await connection.getSupply();
    assert.ok(supply.total >= supply.circulating && supply.circulating > 0);
    assert.equal(await connection.getMinimumBalanceForRentExemption(165), 2_039_280);
    assert.ok((await connection.getStakeMinimumDelegation()).value >= 1);
    const { value: largest } = await connection.getLargestAccounts();
    assert.ok(largest.length > 0 && largest[0].lamports > 0);
  });
}
