"""Calls: what the node knows itself equals what its upstream says, in both encodings; errors are kaspad's."""

import os

import pytest
from kaspa import Resolver

from world import COINBASE_MATURITY, NETWORK, SOMPI_PER_KASPA, RpcClient, outpoint

BURN_ADDRESS = "kaspa:qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqkx9awp4e"
NO_HASH = "11" * 32
UNAVAILABLE = "Method unavailable in safe mode. Run the node with --unsaferpc argument."


class StepsNode:
    async def step_the_resolver_names_the_node(self, world):
        url = os.environ["HYDRANT_WRPC_BORSH_URL"]
        resolver = Resolver(urls=[url.replace("ws://", "http://")])
        assert await resolver.get_url("borsh", NETWORK) == url
        assert await resolver.get_url("json", NETWORK) == os.environ["HYDRANT_WRPC_JSON_URL"]
        client = RpcClient(resolver=resolver, network_id=NETWORK)
        await client.connect()
        assert client.is_connected and client.url == url and client.node_id == "hydrant"
        await client.disconnect()
        assert not client.is_connected

    async def step_the_node_describes_itself(self, world):
        info = await world.client.get_server_info()
        assert info["networkId"] == "simnet"
        assert info["rpcApiVersion"] == 1 and info["hasUtxoIndex"]
        assert (await world.client.get_info())["isUtxoIndexed"]
        assert (await world.client.get_current_network())["network"] == "simnet"
        assert await world.client.ping() == {}

    async def step_blocks_are_mined_through_the_node(self, world):
        before = await world.caught_up()
        await world.mine(COINBASE_MATURITY + 10)
        assert await world.caught_up() >= before + COINBASE_MATURITY + 9
        assert (await world.client.get_sync_status())["isSynced"]


class StepsCalls:
    async def step_the_chain_is_that_of_the_upstream(self, world):
        await world.caught_up()
        for method in ["get_block_dag_info", "get_sink", "get_sink_blue_score", "get_block_count", "get_coin_supply"]:
            ours, theirs = [await getattr(client, method)() for client in [world.client, world.upstream]]
            assert ours == theirs, method
        sink = (await world.client.get_sink())["sink"]
        block = {"hash": sink, "includeTransactions": True}
        assert (await world.client.get_block(block))["block"]["header"]["hash"] == sink
        assert await world.client.get_block(block) == await world.upstream.get_block(block)

    async def step_the_selected_chain_from_genesis(self, world):
        genesis = (await world.client.get_block_dag_info())["pruningPointHash"]
        request = {"startHash": genesis, "includeAcceptedTransactionIds": True}
        chain = await world.client.get_virtual_chain_from_block(request)
        assert chain == await world.upstream.get_virtual_chain_from_block(request)
        sink = (await world.client.get_sink())["sink"]
        assert chain["addedChainBlockHashes"][-1] == sink
        level = {"startHash": genesis, "dataVerbosityLevel": "Full"}
        full = await world.client.get_virtual_chain_from_block_v2(level)
        assert full["addedChainBlockHashes"][-1] == sink
        assert len(full["chainBlockAcceptedTransactions"]) == len(full["addedChainBlockHashes"])
        blocks = {"lowHash": genesis, "includeBlocks": True, "includeTransactions": True}
        assert await world.client.get_blocks(blocks) == await world.upstream.get_blocks(blocks)

    async def step_utxos_and_balances_of_a_mined_address(self, world):
        utxos = await world.utxos(world.miner)
        assert len(utxos) >= COINBASE_MATURITY
        assert utxos == await world.utxos(world.miner, world.upstream)
        assert all(utxo["address"] == world.miner.text and utxo["utxoEntry"]["isCoinbase"] for utxo in utxos)
        total = sum(utxo["utxoEntry"]["amount"] for utxo in utxos)
        assert await world.balance(world.miner) == total
        assert await world.balance(world.miner, world.upstream) == total
        addresses = [world.miner.text, BURN_ADDRESS, world.alice.text]
        balances = (await world.client.get_balances_by_addresses({"addresses": addresses}))["entries"]
        assert [(entry["address"], entry["balance"]) for entry in balances] == list(zip(addresses, [total, 0, 0]))
        # The SDK takes addresses as objects, too.
        assert await world.client.get_balance_by_address({"address": world.miner.address}) == {"balance": total}
        supply = await world.client.get_coin_supply()
        assert total <= supply["circulatingSompi"] <= supply["maxSompi"]

    async def step_the_same_in_json(self, world):
        client = await world.open(os.environ["HYDRANT_WRPC_JSON_URL"], "json")
        assert client.encoding == "json"
        assert await world.utxos(world.miner, client) == await world.utxos(world.miner)
        assert await world.balance(world.miner, client) == await world.balance(world.miner)
        for method in ["get_server_info", "get_block_dag_info", "get_sink_blue_score", "get_coin_supply"]:
            assert await getattr(client, method)() == await getattr(world.client, method)(), method
        await world.mine(client=client)
        await client.disconnect()

    async def step_fee_estimates_and_peers(self, world):
        bucket = (await world.client.get_fee_estimate())["estimate"]["priorityBucket"]
        assert bucket["feerate"] >= 1
        assert (await world.client.get_connected_peer_info())["peerInfo"] == []
        assert (await world.client.get_peer_addresses())["bannedAddresses"] == []
        mempool = {"includeOrphanPool": True, "filterTransactionPool": False}
        assert (await world.client.get_mempool_entries(mempool))["mempoolEntries"] == []
        by_address = {"addresses": [world.alice.text], **mempool}
        entry = (await world.client.get_mempool_entries_by_addresses(by_address))["entries"][0]
        assert (entry["address"], entry["sending"], entry["receiving"]) == (world.alice.text, [], [])


class StepsErrors:
    async def step_an_address_of_another_network_is_answered(self, world):
        """kaspad compares prefixes only where it builds a block."""
        mainnet = world.miner.key.to_keypair().to_address("mainnet").to_string()
        found = await world.client.get_utxos_by_addresses({"addresses": [mainnet]})
        assert sorted(found["entries"], key=outpoint) == await world.utxos(world.miner)
        assert (await world.client.get_balance_by_address({"address": mainnet}))["balance"] > SOMPI_PER_KASPA
        with pytest.raises(Exception, match="The address has an invalid prefix kaspa"):
            await world.client.get_block_template({"payAddress": mainnet, "extraData": []})

    async def step_errors_of_the_upstream_are_passed_on(self, world):
        with pytest.raises(Exception, match=f"cannot find header {NO_HASH}"):
            await world.client.get_block({"hash": NO_HASH, "includeTransactions": False})
        entry = {"transactionId": NO_HASH, "includeOrphanPool": True, "filterTransactionPool": False}
        with pytest.raises(Exception, match=f"Transaction {NO_HASH} not found"):
            await world.client.get_mempool_entry(entry)
        with pytest.raises(Exception, match="Not implemented"):
            await world.client.get_headers({"startHash": NO_HASH, "limit": 1, "isAscending": True})
        assert await world.client.ping() == {}

    async def step_methods_that_change_the_node_are_refused(self, world):
        """The upstream runs with --unsaferpc; that is not a right of its clients."""
        for call in [world.client.shutdown, lambda: world.client.ban({"ip": "192.0.2.1"})]:
            with pytest.raises(Exception, match=UNAVAILABLE):
                await call()
        assert await world.upstream.ping() == {}
