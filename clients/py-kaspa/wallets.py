"""Payments: transactions of the SDK's generator, the UtxoProcessor that follows addresses, and the whole Wallet."""

import pytest
from kaspa import (
    AccountKind,
    Fees,
    FeeSource,
    Generator,
    PaymentOutput,
    PrvKeyDataVariantKind,
    UtxoContext,
    UtxoProcessor,
    Wallet,
)

from world import NETWORK, SOMPI_PER_KASPA, Events, until

# DAA scores after which the SDK lets a payment be spent. Its default on simnet is 100.
USER_MATURITY = 2
WALLET_SECRET = "secret of the flow"


class StepsPayments:
    async def step_a_payment_is_in_the_mempool_and_then_in_the_chain(self, world):
        paid = 20 * SOMPI_PER_KASPA
        [sent] = await world.pay(world.miner, world.alice, paid)
        request = {"transactionId": sent.id, "includeOrphanPool": True, "filterTransactionPool": False}
        entry = (await world.client.get_mempool_entry(request))["mempoolEntry"]
        assert entry["fee"] == sent.fee_amount
        by_address = {"addresses": [world.alice.text], "includeOrphanPool": True, "filterTransactionPool": False}
        receiving = (await world.client.get_mempool_entries_by_addresses(by_address))["entries"][0]["receiving"]
        assert [entry["fee"] for entry in receiving] == [sent.fee_amount]
        assert await world.balance(world.alice) == 0
        world.events.clear()
        await world.client.subscribe_utxos_changed([world.alice.address])
        await world.mine()
        assert await world.balance(world.alice) == paid
        [utxo] = await world.utxos(world.alice)
        assert utxo["outpoint"]["transactionId"] == sent.id
        assert not utxo["utxoEntry"]["isCoinbase"] and utxo["utxoEntry"]["amount"] == paid
        for person in [world.miner, world.alice]:
            assert await world.utxos(person) == await world.utxos(person, world.upstream)

    async def step_an_output_is_not_spent_twice(self, world):
        entries = (await world.spendable(world.miner))[:1]
        await world.pay(world.miner, world.bob, SOMPI_PER_KASPA, entries)
        with pytest.raises(Exception, match="already spent by transaction"):
            await world.pay(world.miner, world.bob, 2 * SOMPI_PER_KASPA, entries)
        await world.mine()
        with pytest.raises(Exception, match="orphan"):
            await world.pay(world.miner, world.bob, 3 * SOMPI_PER_KASPA, entries)
        assert await world.balance(world.bob) == SOMPI_PER_KASPA

    async def step_an_immature_coinbase_is_not_spent(self, world):
        await world.mine()
        entry = lambda utxo: utxo["utxoEntry"]
        coinbases = [utxo for utxo in await world.utxos(world.miner) if entry(utxo)["isCoinbase"]]
        young = sorted(coinbases, key=lambda utxo: entry(utxo)["blockDaaScore"])[-1:]
        with pytest.raises(Exception, match="immature"):
            await world.pay(world.miner, world.bob, SOMPI_PER_KASPA, young)


class StepsUtxoContext:
    async def step_the_balance_of_a_followed_address(self, world):
        UtxoProcessor.set_user_transaction_maturity_daa(NETWORK, USER_MATURITY)
        world.processor = UtxoProcessor(world.client, NETWORK)
        world.processed = Events(world.processor)
        await world.processor.start()
        await world.processed.find("utxo-proc-start")
        world.context = UtxoContext(world.processor)
        await world.context.track_addresses([world.alice.address])
        await world.mine(USER_MATURITY)
        expected = await world.balance(world.alice)
        await has_balance(world, expected)
        assert world.context.mature_length == len(await world.utxos(world.alice))

    async def step_an_incoming_payment_matures(self, world):
        before = await world.balance(world.alice)
        [sent] = await world.pay(world.miner, world.alice, 5 * SOMPI_PER_KASPA)
        await world.mine()
        await world.processed.find("pending", lambda event: event["data"]["id"] == sent.id)
        await world.mine(USER_MATURITY)
        await world.processed.find("maturity", lambda event: event["data"]["id"] == sent.id)
        await has_balance(world, before + 5 * SOMPI_PER_KASPA)

    async def step_a_payment_from_the_context(self, world):
        generator = Generator(
            entries=world.context,
            outputs=[{"address": world.bob.address, "amount": 2 * SOMPI_PER_KASPA}],
            change_address=world.alice.address,
            priority_fee=1_000,
        )
        before = await world.balance(world.bob)
        for pending in generator:
            pending.sign([world.alice.key])
            await pending.submit(world.client)
        await world.mine(USER_MATURITY + 1)
        assert await world.balance(world.bob) == before + 2 * SOMPI_PER_KASPA
        await has_balance(world, await world.balance(world.alice))


class StepsRestart:
    async def step_clients_reconnect_after_a_restart(self, world):
        world.events.clear()
        world.processed.clear()
        await world.control("restart")
        await world.events.find("disconnect")
        await world.events.find("connect")
        await until("a connection", lambda: connected(world.client))
        for person in [world.miner, world.alice]:
            assert await world.utxos(person) == await world.utxos(person, world.upstream)

    async def step_a_followed_address_is_followed_again(self, world):
        """The processor starts again by itself. As in the SDK's examples, its contexts are filled again then."""
        await world.processed.find("utxo-proc-start")
        await world.context.clear()
        await world.context.track_addresses([world.alice.address])
        before = await world.balance(world.alice)
        [sent] = await world.pay(world.miner, world.alice, 3 * SOMPI_PER_KASPA)
        await world.mine(USER_MATURITY + 1)
        await world.processed.find("maturity", lambda event: event["data"]["id"] == sent.id)
        await has_balance(world, before + 3 * SOMPI_PER_KASPA)
        await world.processor.stop()


async def has_balance(world, sompi):
    async def has():
        balance = world.context.balance
        return balance and (balance.mature, balance.pending, balance.outgoing) == (sompi, 0, 0)

    try:
        await until(f"a mature balance of {sompi}", has)
    except AssertionError as error:
        raise AssertionError(f"{error}; {world.context.balance}") from None


async def connected(client):
    return client.is_connected


class StepsWallet:
    async def step_a_wallet_synchronizes_and_pays(self, world):
        """The wallet keeps its file in the home directory, which is the test's own."""
        wallet = Wallet(network_id=NETWORK, url=world.client.url)
        await wallet.start()
        await wallet.wallet_create(
            wallet_secret=WALLET_SECRET, filename="flow", title="flow", overwrite_wallet_storage=True
        )
        await wallet.connect(block_async_connect=True)
        await until("the wallet to be in sync", lambda: synced(wallet))
        key = await wallet.prv_key_data_create(
            wallet_secret=WALLET_SECRET,
            secret=world.bob.key.to_string(),
            kind=PrvKeyDataVariantKind.SecretKey,
            name="bob",
        )
        account = await wallet.accounts_import_keypair(
            wallet_secret=WALLET_SECRET, prv_key_data_id=key, ecdsa=False, account_name="bob"
        )
        assert account.kind == AccountKind("keypair")
        assert account.receive_address.to_string() == world.bob.text
        await wallet.accounts_activate([account.account_id])
        await world.mine(USER_MATURITY + 1)
        before = await world.balance(world.bob)
        assert before > SOMPI_PER_KASPA
        await self.has_balance(wallet, account, before)
        amount = SOMPI_PER_KASPA // 2
        sent = await wallet.accounts_send(
            wallet_secret=WALLET_SECRET,
            account_id=account.account_id,
            priority_fee_sompi=Fees(0, FeeSource.SenderPays),
            destination=[PaymentOutput(world.miner.address, amount)],
        )
        await world.mine(USER_MATURITY + 1)
        after = before - amount - sent.fees
        assert await world.balance(world.bob) == after
        await self.has_balance(wallet, account, after)
        await wallet.wallet_close()
        await wallet.disconnect()
        await wallet.stop()

    async def has_balance(self, wallet, account, sompi):
        async def has():
            balance = (await wallet.accounts_get(account.account_id)).balance
            return balance and balance.mature == sompi

        await until(f"a wallet with {sompi}", has)


async def synced(wallet):
    return wallet.is_synced
