"""The node's information about itself and its chain."""

from solana.rpc.commitment import Processed

from world import FOLLOWED, until


class StepsNode:
    async def step_health_version_genesis_and_cluster(self, world):
        client = world.client
        assert await client.is_connected()
        assert (await client.get_version()).value.solana_core.count(".") >= 2
        identity = (await client.get_identity()).value.identity
        leader = (await client.get_slot_leader()).value
        assert (identity == leader) != FOLLOWED
        nodes = (await client.get_cluster_nodes()).value
        assert [node.pubkey for node in nodes] == [leader]
        assert len(bytes((await client.get_genesis_hash()).value)) == 32

    async def step_slots_epoch_and_their_leaders(self, world):
        client = world.client
        leader = (await client.get_slot_leader()).value
        info = (await client.get_epoch_info()).value
        schedule = (await client.get_epoch_schedule()).value
        assert schedule.slots_per_epoch == info.slots_in_epoch
        assert (await client.get_slot_leaders(info.absolute_slot, 2)).value == [leader] * 2
        leaders = (await client.get_leader_schedule()).value
        assert len(leaders[leader]) == info.slots_in_epoch
        assert (await client.get_first_available_block()).value <= info.absolute_slot
        assert (await client.get_minimum_ledger_slot()).value <= info.absolute_slot
        assert (await client.get_block_height(Processed)).value >= info.block_height

    async def step_votes_performance_and_commitment(self, world):
        client = world.client
        leader = (await client.get_slot_leader()).value

        async def current():
            return (await client.get_vote_accounts()).value.current

        # At genesis there is no vote yet, which counts as delinquent.
        votes = await until("a finalized vote", current)
        assert [vote.node_pubkey for vote in votes] == [leader]
        assert (await client.get_recent_performance_samples(2)).value is not None

        async def commitment():
            slot = (await client.get_slot()).value
            return (await client.get_block_commitment(slot)).value.total_stake

        assert await until("a total stake", commitment) > 0

    async def step_inflation_supply_rent_and_largest_accounts(self, world):
        client = world.client
        assert (await client.get_inflation_governor()).value.terminal >= 0
        assert (await client.get_inflation_rate()).value.total >= 0
        supply = (await client.get_supply()).value
        assert supply.total == supply.circulating + supply.non_circulating
        assert await world.rent(165) == 2_039_280
        largest = (await client.get_largest_accounts()).value
        assert largest[0].lamports >= largest[-1].lamports > 0
