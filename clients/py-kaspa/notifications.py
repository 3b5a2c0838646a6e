"""Subscriptions.

The SDK returns from subscribe before the node has the request. So a step mines until a notification comes.
"""

import os

from world import NOTIFICATION_SECONDS, Events, outpoint, until


async def mine_until(world, events, kind, matches=lambda event: True):
    """Mines blocks until a notification has come. Returns it."""

    async def notified():
        await world.mine()
        try:
            return await events.find(kind, matches, NOTIFICATION_SECONDS)
        except TimeoutError:
            return None

    return await until(f"a notification {kind}", notified)


async def mine_until_silent(world, events, kind):
    """Mines blocks until one has changed the DAA score without a notification of a kind."""

    async def is_silent():
        events.clear()
        await world.mine()
        await events.find("VirtualDaaScoreChanged")
        return not events.all(kind)

    await until(f"no notification {kind}", is_silent)


class StepsSubscriptions:
    async def step_every_change_of_the_chain(self, world):
        client, events = world.client, world.events
        await client.subscribe_block_added()
        await client.subscribe_virtual_chain_changed(True)
        await client.subscribe_sink_blue_score_changed()
        await client.subscribe_new_block_template()
        await client.subscribe_utxos_changed([world.miner.address])
        await client.subscribe_virtual_daa_score_changed()
        kinds = ["BlockAdded", "NewBlockTemplate", "SinkBlueScoreChanged", "VirtualChainChanged"]
        for kind in [*kinds, "UtxosChanged", "VirtualDaaScoreChanged"]:
            await mine_until(world, events, kind)
        events.clear()
        await world.mine()
        daa_score = await world.caught_up()
        await events.find("VirtualDaaScoreChanged", lambda event: event["data"]["virtualDaaScore"] == daa_score)
        sink = (await client.get_sink())["sink"]
        added = await events.find("BlockAdded", lambda event: event["data"]["block"]["header"]["hash"] == sink)
        assert added["data"]["block"]["transactions"][0]["outputs"]
        chain = await events.find("VirtualChainChanged", lambda event: sink in event["data"]["addedChainBlockHashes"])
        accepted = chain["data"]["acceptedTransactionIds"][-1]
        assert accepted["acceptingBlockHash"] == sink and accepted["acceptedTransactionIds"]
        blue_score = (await client.get_sink_blue_score())["blueScore"]
        await events.find("SinkBlueScoreChanged", lambda event: event["data"]["sinkBlueScore"] == blue_score)

    async def step_utxos_of_an_address(self, world):
        world.events.clear()
        await world.mine()
        changed = await world.events.find("UtxosChanged")
        assert len(changed["added"]) == 1 and not changed["removed"]
        assert changed["added"][0] in await world.utxos(world.miner)
        assert changed["added"][0]["address"] == world.miner.text

    async def step_an_ended_subscription_is_silent(self, world):
        await world.client.unsubscribe_utxos_changed([world.miner.address])
        await mine_until_silent(world, world.events, "UtxosChanged")
        await world.client.unsubscribe_block_added()
        await mine_until_silent(world, world.events, "BlockAdded")

    async def step_utxos_of_all_addresses(self, world):
        client = await world.open(os.environ["HYDRANT_WRPC_BORSH_URL"])
        events = Events(client)
        await client.subscribe_utxos_changed([])
        changed = await mine_until(world, events, "UtxosChanged")
        assert changed["added"][0] in await world.utxos(world.miner)
        await client.disconnect()

    async def step_the_same_in_json(self, world):
        client = await world.open(os.environ["HYDRANT_WRPC_JSON_URL"], "json")
        events = Events(client)
        await client.subscribe_utxos_changed([world.miner.address])
        await client.subscribe_virtual_chain_changed(True)
        changed = await mine_until(world, events, "UtxosChanged")
        assert changed["added"][0] in await world.utxos(world.miner)
        await mine_until(world, events, "VirtualChainChanged")
        await client.disconnect()

    async def step_a_reorganization_is_notified_and_applied(self, world):
        """Two blocks of one template are siblings. The one with the higher hash is the sink, whichever came first."""
        world.events.clear()
        removes = lambda event: event["data"]["removedChainBlockHashes"]

        async def reorganized():
            block = await world.template()
            for nonce in [1, 2]:
                block["header"]["nonce"] = nonce
                await world.submit_block(block)
            await world.caught_up()
            return any(map(removes, world.events.all("VirtualChainChanged")))

        await until("a reorganization", reorganized)
        changed = await world.events.find("VirtualChainChanged", removes)
        assert changed["data"]["addedChainBlockHashes"]
        await world.mine()
        utxos = await world.utxos(world.miner)
        assert utxos == await world.utxos(world.miner, world.upstream)
        assert len(set(map(outpoint, utxos))) == len(utxos)
        assert await world.client.get_sink() == await world.upstream.get_sink()
