"""Shared by all steps: the client, one socket, the keys, and the sending of transactions."""

import asyncio
import os
import struct
import time
from pathlib import Path

from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solana.rpc.models import TxOpts
from solana.rpc.websocket_api import SolanaWsClient
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.transaction import VersionedTransaction

LAMPORTS_PER_SOL = 1_000_000_000
WAIT_SECONDS_MAX = 30
POLL_SECONDS = 0.05
# Whether the node follows another one, which leads every slot and has the faucet.
FOLLOWED = os.environ.get("HYDRANT_FOLLOWED") == "1"


class World:
    """The node under test and the people on its ledger."""

    @classmethod
    async def connect(cls):
        world = cls()
        world.client = AsyncClient(os.environ["HYDRANT_RPC_URL"], Confirmed)
        world.socket = await SolanaWsClient(os.environ["HYDRANT_WS_URL"]).connect()
        world.heard = Inboxes(world.socket)
        world.payer, world.alice, world.bob = Keypair(), Keypair(), Keypair()
        return world

    async def close(self):
        self.heard.stop()
        await self.socket.close()
        await self.client.close()

    async def airdrop(self, to, sol):
        signature = (await self.client.request_airdrop(to, sol * LAMPORTS_PER_SOL)).value
        await self.confirmed(signature)

    async def sign(self, instructions, signers, tables=(), blockhash=None):
        """A version 0 transaction, paid for by the payer."""
        blockhash = blockhash or (await self.client.get_latest_blockhash()).value.blockhash
        message = MessageV0.try_compile(self.payer.pubkey(), list(instructions), list(tables), blockhash)
        return VersionedTransaction(message, [self.payer, *signers])

    async def send(self, instructions, signers=(), tables=()):
        """The signature, once the transaction is confirmed and has not failed."""
        transaction = await self.sign(instructions, signers, tables)
        signature = (await self.client.send_transaction(transaction)).value
        assert await self.confirmed(signature) is None
        return signature

    async def send_unchecked(self, transaction):
        """The signature and the error with which the transaction landed."""
        options = TxOpts(skip_preflight=True, preflight_commitment=Confirmed)
        signature = (await self.client.send_transaction(transaction, options)).value
        return signature, await self.confirmed(signature)

    async def confirmed(self, signature):
        """The error, or None, of a transaction that is now confirmed."""
        statuses = await self.client.confirm_transaction(signature, Confirmed, sleep_seconds=POLL_SECONDS)
        return statuses.value[0].err

    async def transaction(self, signature, encoding="json", commitment=Confirmed):
        async def read():
            found = await self.client.get_transaction(signature, encoding, commitment, 0)
            return found.value

        return await until(f"transaction {signature}", read)

    async def slot_after(self, slot):
        async def passed():
            return (await self.client.get_slot(Confirmed)).value > slot

        await until(f"a confirmed slot after {slot}", passed)

    async def rent(self, size):
        return (await self.client.get_minimum_balance_for_rent_exemption(size)).value

    async def balance(self, owner):
        return (await self.client.get_balance(owner)).value

    @staticmethod
    def program_elf():
        return Path(os.environ["HYDRANT_PROGRAM_ELF"]).read_bytes()

    @staticmethod
    def upgrade_elf():
        return Path(os.environ["HYDRANT_UPGRADE_ELF"]).read_bytes()


class Inboxes:
    """Every notification of the one socket, by subscription, in the order they came."""

    def __init__(self, socket):
        self._items = {}
        self._arrival = asyncio.Condition()
        self._reader = asyncio.create_task(self._read(socket))

    async def _read(self, socket):
        async for notification in socket:
            async with self._arrival:
                self._items.setdefault(notification.subscription, []).append(notification.result)
                self._arrival.notify_all()

    def all(self, subscription):
        return self._items.get(subscription.subscription_id, [])

    async def next(self, subscription, matches=lambda item: True):
        """The first item that `matches` accepts, received already or later."""

        async def search():
            at = 0
            async with self._arrival:
                while True:
                    for item in self.all(subscription)[at:]:
                        at += 1
                        if matches(item):
                            return item
                    await self._arrival.wait()

        search = asyncio.create_task(search())
        await asyncio.wait({search, self._reader}, timeout=WAIT_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED)
        if search.done():
            return search.result()
        search.cancel()
        if self._reader.done():
            self._reader.result()
        raise AssertionError(f"no such {subscription.kind} notification; had {self.all(subscription)}")

    def stop(self):
        self._reader.cancel()


async def until(what, probe):
    """Calls `probe` until its result is true."""
    end = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < end:
        if value := await probe():
            return value
        await asyncio.sleep(POLL_SECONDS)
    raise AssertionError(f"waited {WAIT_SECONDS_MAX} s for {what}")


def token_amount(data):
    """The amount in a token account's bytes."""
    return struct.unpack_from("<Q", data, 64)[0]
