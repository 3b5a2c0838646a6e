"""Shared by all steps: connections to the node and to its upstream, the keys, blocks, payments and notifications."""

import asyncio
import os

from kaspa import Generator, NetworkId, PrivateKey, RpcClient

NETWORK = NetworkId("simnet")
SOMPI_PER_KASPA = 100_000_000
WAIT_SECONDS_MAX = 30
POLL_SECONDS = 0.05
# How long a notification may take before another block is mined for it.
NOTIFICATION_SECONDS = 1
# DAA scores after which a coinbase can be spent: 4 for the model of kaspad, 1,000 for kaspad on simnet.
COINBASE_MATURITY = int(os.environ["HYDRANT_COINBASE_MATURITY"])


class World:
    """The node under test and the people on its chain."""

    @classmethod
    async def connect(cls):
        world = cls()
        world.client = await world.open(os.environ["HYDRANT_WRPC_BORSH_URL"])
        world.upstream = await world.open(os.environ["HYDRANT_UPSTREAM_URL"])
        world.events = Events(world.client)
        world.miner, world.alice, world.bob = Person("1"), Person("2"), Person("3")
        return world

    async def open(self, url, encoding="borsh"):
        client = RpcClient(url=url, network_id=NETWORK, encoding=encoding)
        await client.connect(timeout_duration=10_000, retry_interval=100)
        return client

    async def close(self):
        await self.client.disconnect()
        await self.upstream.disconnect()

    async def template(self, client=None):
        client = client or self.client
        template = await client.get_block_template({"payAddress": self.miner.text, "extraData": []})
        return template["block"]

    async def submit_block(self, block, client=None):
        client = client or self.client
        submitted = await client.submit_block({"block": block, "allowNonDaaBlocks": False})
        assert submitted["report"]["type"] == "success", submitted

    async def mine(self, blocks=1, client=None):
        """Mines blocks through the node, and waits until the node is at the state of its upstream."""
        for _ in range(blocks):
            await self.submit_block(await self.template(client), client)
        await self.caught_up()

    async def caught_up(self):
        """Waits until the node and its upstream have the same sink and virtual block. Returns its DAA score."""

        async def state(client):
            return (await client.get_server_info())["virtualDaaScore"], (await client.get_sink())["sink"]

        async def reached():
            ours, theirs = await state(self.client), await state(self.upstream)
            return ours == theirs and ours[0]

        return await until("the node to reach its upstream", reached)

    async def balance(self, person, client=None):
        return (await (client or self.client).get_balance_by_address({"address": person.text}))["balance"]

    async def utxos(self, person, client=None):
        found = await (client or self.client).get_utxos_by_addresses({"addresses": [person.text]})
        return sorted(found["entries"], key=outpoint)

    async def spendable(self, person):
        """The UTXOs that a transaction in the next block may spend."""
        score = await self.caught_up()
        mature = lambda utxo: not utxo["isCoinbase"] or utxo["blockDaaScore"] + COINBASE_MATURITY <= score
        return [utxo for utxo in await self.utxos(person) if mature(utxo["utxoEntry"])]

    async def pay(self, payer, to, amount, entries=None):
        """Signs and submits a payment. Returns its transactions: several if there are many inputs."""
        generator = Generator(
            network_id=NETWORK,
            entries=entries or (await self.spendable(payer))[:10],
            outputs=[{"address": to.address, "amount": amount}],
            change_address=payer.address,
            priority_fee=1_000,
        )
        sent = []
        for pending in generator:
            pending.sign([payer.key])
            assert await pending.submit(self.client) == pending.id
            sent.append(pending)
        assert generator.summary().final_transaction_id == sent[-1].id
        return sent

    async def control(self, command):
        """Has the test restart the node: crates/hydrant/tests/it/kaspa_clients.rs."""
        host, port = os.environ["HYDRANT_CONTROL"].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"{command}\n".encode())
        reply = await asyncio.wait_for(reader.readline(), WAIT_SECONDS_MAX)
        writer.close()
        assert reply == b"ok\n", reply


class Person:
    def __init__(self, digit):
        self.key = PrivateKey(digit * 64)
        self.address = self.key.to_keypair().to_address("simnet")
        self.text = self.address.to_string()


class Events:
    """The notifications of a client, in the order they came. The SDK calls back on a thread of its own."""

    def __init__(self, source):
        self.items = []
        self.arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        source.add_event_listener("all", lambda event: loop.call_soon_threadsafe(self.push, event))

    def push(self, event):
        self.items.append(event)
        self.arrived.set()

    def clear(self):
        self.items.clear()

    def all(self, kind):
        return [event for event in self.items if event["type"] == kind]

    async def find(self, kind, matches=lambda event: True, seconds=WAIT_SECONDS_MAX):
        """The first event of a kind that matches, received already or later."""

        async def search():
            at = 0
            while True:
                while at < len(self.items):
                    if self.items[at]["type"] == kind and matches(self.items[at]):
                        return self.items[at]
                    at += 1
                self.arrived.clear()
                await self.arrived.wait()

        try:
            return await asyncio.wait_for(search(), seconds)
        except TimeoutError:
            kinds = [event["type"] for event in self.items]
            raise TimeoutError(f"no such {kind} in {seconds} s among {kinds}") from None


async def until(what, probe):
    """Asks `probe` again until it returns something other than None or False."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT_SECONDS_MAX
    while True:
        value = await probe()
        if value is not None and value is not False:
            return value
        assert loop.time() < end, f"waited {WAIT_SECONDS_MAX} s for {what}"
        await asyncio.sleep(POLL_SECONDS)


def outpoint(utxo):
    return utxo["outpoint"]["transactionId"], utxo["outpoint"]["index"]
