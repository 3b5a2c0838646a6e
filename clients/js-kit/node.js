// What the node says of itself and of its chain: every such method that kit has.

import assert from 'node:assert/strict';
import { address, isSolanaError, SOLANA_ERROR__JSON_RPC__SERVER_ERROR_NO_SNAPSHOT } from '@solana/kit';
import { followed, until } from '../steps.js';
import { rpc } from './world.js';

export function nodeSteps(step) {
  step('node: health, version, identity, cluster', async () => {
    assert.equal(await rpc.getHealth().send(), 'ok');
    assert.match((await rpc.getVersion().send())['solana-core'], /^\d+\.\d+\.\d+/);
    const { identity } = await rpc.getIdentity().send();
    const leader = await rpc.getSlotLeader().send();
    assert.equal(identity === leader, !followed);
    const nodes = await rpc.getClusterNodes().send();
    assert.deepEqual(nodes.map(({ pubkey }) => pubkey), [leader]);
    address(await rpc.getGenesisHash().send());
    // The followed node has made the snapshot that the follower began with.
    if (followed) assert.ok((await rpc.getHighestSnapshotSlot().send()).full >= 0n);
    else await assert.rejects(rpc.getHighestSnapshotSlot().send(), (error) =>
      isSolanaError(error, SOLANA_ERROR__JSON_RPC__SERVER_ERROR_NO_SNAPSHOT));
  });

  step('node: slots, epoch and their leaders', async () => {
    const leader = await rpc.getSlotLeader().send();
    const info = await rpc.getEpochInfo().send();
    const schedule = await rpc.getEpochSchedule().send();
    assert.equal(schedule.slotsPerEpoch, info.slotsInEpoch);
    assert.deepEqual(await rpc.getSlotLeaders(info.absoluteSlot, 3).send(), [leader, leader, leader]);
    const leaders = await rpc.getLeaderSchedule(null, { identity: leader }).send();
    assert.equal(BigInt(leaders[leader].length), info.slotsInEpoch);
    assert.ok((await rpc.getFirstAvailableBlock().send()) <= info.absoluteSlot);
    assert.ok((await rpc.minimumLedgerSlot().send()) <= info.absoluteSlot);
    assert.ok((await rpc.getMaxRetransmitSlot().send()) >= info.absoluteSlot);
    assert.ok((await rpc.getMaxShredInsertSlot().send()) >= info.absoluteSlot);
    assert.ok((await rpc.getBlockHeight({ commitment: 'processed' }).send()) >= info.blockHeight);
    assert.ok((await rpc.getTransactionCount().send()) >= 0n);
  });

  step('node: votes, production, performance, stake', async () => {
    const leader = await rpc.getSlotLeader().send();
    // At genesis there is no vote yet, which counts as delinquent.
    const current = await until('a finalized vote', async () => {
      const votes = await rpc.getVoteAccounts().send();
      return votes.current.length > 0 && votes.current;
    });
    assert.deepEqual(current.map(({ nodePubkey }) => nodePubkey), [leader]);
    assert.ok(current[0].activatedStake > 0n);
    await until('a finished leader slot', async () => {
      const { value } = await rpc.getBlockProduction({ identity: leader }).send();
      const [slots, blocks] = value.byIdentity[leader] ?? [0n, 0n];
      return blocks > 0n && slots >= blocks;
    });
    const commitment = await rpc.getBlockCommitment(await rpc.getSlot().send()).send();
    assert.ok(commitment.totalStake > 0n);
    assert.ok(Array.isArray(await rpc.getRecentPerformanceSamples(3).send()));
    assert.ok((await rpc.getStakeMinimumDelegation().send()).value >= 1n);
  });

  step('node: inflation, supply, rent, largest accounts', async () => {
    assert.equal(typeof (await rpc.getInflationGovernor().send()).terminal, 'number');
    assert.equal(typeof (await rpc.getInflationRate().send()).total, 'number');
    const { value: supply } = await rpc.getSupply({ excludeNonCirculatingAccountsList: true }).send();
    assert.equal(supply.total, supply.circulating + supply.nonCirculating);
    assert.equal(await rpc.getMinimumBalanceForRentExemption(165n).send(), 2_039_280n);
    const { value: largest } = await rpc.getLargestAccounts().send();
    assert.ok(largest.length > 0 && largest[0].lamports >= largest.at(-1).lamports);
  });
}
