"""Subscriptions that follow the chain and one signature; those of accounts are with the tokens."""

from solana.rpc.commitment import Confirmed, Finalized, Processed
from solders.rpc.config import RpcBlockSubscribeFilterMentions
from solders.system_program import TransferParams, transfer
from solders.transaction_status import TransactionConfirmationStatus, TransactionDetails


class StepsSubscriptions:
    async def step_slots_and_roots_follow_the_chain(self, world):
        slots, roots = await world.socket.slot_subscribe(), await world.socket.root_subscribe()
        first = await world.heard.next(slots)
        assert first.parent == first.slot - 1
        assert (await world.heard.next(slots, lambda item: item.slot > first.slot)).slot == first.slot + 1
        root = await world.heard.next(roots)
        assert await world.heard.next(roots, lambda item: item > root) == root + 1
        await world.socket.unsubscribe(slots)
        await world.socket.unsubscribe(roots)

    async def step_slot_updates_and_votes(self, world):
        updates = await world.socket.slots_updates_subscribe()
        votes = await world.socket.vote_subscribe()
        for kind in ["CreatedBank", "Frozen", "OptimisticConfirmation", "Root"]:
            await world.heard.next(updates, lambda item, kind=kind: type(item).__name__ == f"SlotUpdate{kind}")
        vote = await world.heard.next(votes)
        accounts = (await world.client.get_vote_accounts()).value.current
        assert vote.vote_pubkey == accounts[0].vote_pubkey
        await world.socket.unsubscribe(updates)
        await world.socket.unsubscribe(votes)

    async def step_a_block_with_a_transaction_that_mentions_the_address(self, world):
        blocks = await world.socket.block_subscribe(
            filter_=RpcBlockSubscribeFilterMentions(world.payer.pubkey()),
            commitment=Confirmed,
            encoding="base64",
            transaction_details=TransactionDetails.Signatures,
            max_supported_transaction_version=0,
        )
        signature = await world.send([_to_bob(world, 1_000_000)])
        update = (await world.heard.next(blocks)).value
        assert update.err is None
        assert update.block.parent_slot == update.slot - 1
        assert signature in update.block.signatures
        await world.socket.unsubscribe(blocks)

    async def step_a_signature_at_each_commitment(self, world):
        transaction = await world.sign([_to_bob(world, 1_000_001)], [])
        signature = transaction.signatures[0]
        waiting = [
            await world.socket.signature_subscribe(signature=signature, commitment=commitment)
            for commitment in [Processed, Confirmed, Finalized]
        ]
        assert (await world.client.send_transaction(transaction)).value == signature
        slots = []
        for subscription in waiting:
            item = await world.heard.next(subscription)
            assert item.value.err is None
            slots.append(item.context.slot)
        assert slots == sorted(slots)
        statuses = await world.client.get_signature_statuses([signature], search_transaction_history=True)
        assert statuses.value[0].confirmation_status == TransactionConfirmationStatus.Finalized


def _to_bob(world, lamports):
    return transfer(
        TransferParams(from_pubkey=world.payer.pubkey(), to_pubkey=world.bob.pubkey(), lamports=lamports)
    )
