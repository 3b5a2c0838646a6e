"""Transactions that are not plain: failing ones, through a lookup table, simulated, with a nonce."""

import pytest
from solana.rpc.commitment import Confirmed, Finalized
from solana.rpc.core import RPCException
from solders.address_lookup_table_account import (
    AddressLookupTable,
    AddressLookupTableAccount,
    derive_lookup_table_address,
)
from solders.hash import Hash
from solders.keypair import Keypair
from solders.rpc.errors import SendTransactionPreflightFailureMessage
from solders.system_program import (
    AdvanceNonceAccountParams,
    CreateLookupTableParams,
    ExtendLookupTableParams,
    TransferParams,
    advance_nonce_account,
    create_lookup_table,
    create_nonce_account,
    extend_lookup_table,
    transfer,
)
from solders.transaction_status import InstructionErrorCustom, TransactionErrorInstructionError
from spl.token import models
from spl.token import instructions as token

from tokens import StepsToken
from world import until

CUSTOM_1 = InstructionErrorCustom(1)
NONCE_SIZE = 80


def _transfer(world, lamports, to=None, source=None):
    return transfer(
        TransferParams(
            from_pubkey=(source or world.payer).pubkey(), to_pubkey=to or world.bob.pubkey(), lamports=lamports
        )
    )


class StepsFailing:
    async def step_preflight_refuses_with_the_decoded_error_and_the_logs(self, world):
        transaction = await world.sign([self._too_much(world)], [world.bob])
        with pytest.raises(RPCException) as refused:
            await world.client.send_transaction(transaction)
        failure = refused.value.args[0]
        assert isinstance(failure, SendTransactionPreflightFailureMessage), failure
        assert failure.message.endswith("custom program error: 0x1")
        assert failure.data.err == TransactionErrorInstructionError(0, CUSTOM_1)
        assert any("insufficient funds" in line for line in failure.data.logs)

    async def step_without_preflight_it_lands_with_its_error_and_the_fee_is_paid(self, world):
        before = await world.balance(world.payer.pubkey())
        transaction = await world.sign([self._too_much(world)], [world.bob])
        signature, error = await world.send_unchecked(transaction)
        assert error == TransactionErrorInstructionError(0, CUSTOM_1)
        meta = (await world.transaction(signature)).transaction.meta
        assert meta.err == TransactionErrorInstructionError(0, CUSTOM_1)
        assert meta.fee == 10_000
        assert await world.balance(world.payer.pubkey()) == before - 10_000
        listed = (await world.client.get_signatures_for_address(StepsToken.bob, limit=1, commitment=Confirmed)).value
        assert [(entry.signature, entry.err) for entry in listed] == [(signature, meta.err)]

    async def step_a_stale_blockhash_is_refused(self, world):
        stale = await world.sign([_transfer(world, 1)], [], blockhash=Hash(bytes(Keypair().pubkey())))
        with pytest.raises(RPCException) as refused:
            await world.client.send_transaction(stale)
        assert "Blockhash not found" in refused.value.args[0].message

    @staticmethod
    def _too_much(world):
        """Bob's account has 350 of the token. A transfer of more than that to itself fails."""
        return token.transfer(
            models.TransferParams(
                program_id=StepsToken.program,
                source=StepsToken.bob,
                dest=StepsToken.bob,
                owner=world.bob.pubkey(),
                amount=351,
            )
        )


class StepsLookupTable:
    targets = [Keypair().pubkey() for _ in range(4)]

    async def step_create_and_extend(self, world):
        kept, payer = type(self), world.payer.pubkey()
        recent = (await world.client.get_slot(Finalized)).value
        kept.table, bump = derive_lookup_table_address(payer, recent)
        create, address = create_lookup_table(
            CreateLookupTableParams(authority_address=payer, payer_address=payer, recent_slot=recent)
        )
        assert address == kept.table
        extend = extend_lookup_table(
            ExtendLookupTableParams(
                lookup_table_address=kept.table,
                authority_address=payer,
                payer_address=payer,
                new_addresses=self.targets,
            )
        )
        signature = await world.send([create, extend])
        data = (await world.client.get_account_info(kept.table)).value.data
        assert AddressLookupTable.deserialize(data).addresses == self.targets
        # Addresses can be used from the slot after the one that added them.
        await world.slot_after((await world.transaction(signature)).slot)

    async def step_a_version_0_transaction_takes_its_accounts_from_it(self, world):
        tables = [AddressLookupTableAccount(self.table, self.targets)]
        transfers = [_transfer(world, 1_000_000, to=target) for target in self.targets]
        transaction = await world.sign(transfers, [], tables)
        assert sorted(transaction.message.address_table_lookups[0].writable_indexes) == [0, 1, 2, 3]
        assert (await world.client.get_fee_for_message(transaction.message)).value == 5_000
        type(self).versioned = await world.send(transfers, tables=tables)
        assert [await world.balance(target) for target in self.targets] == [1_000_000] * 4

    async def step_history_names_the_loaded_addresses(self, world):
        landed = (await world.transaction(self.versioned)).transaction
        assert landed.version == 0
        assert sorted(landed.meta.loaded_addresses.writable) == sorted(self.targets)
        assert landed.meta.loaded_addresses.readonly == []
        with pytest.raises(RPCException) as refused:
            await world.client.get_transaction(self.versioned, commitment=Confirmed)
        assert "Transaction version (0) is not supported" in str(refused.value.args[0])


class StepsSimulate:
    async def step_accounts_after_another_blockhash_nothing_written(self, world):
        before = await world.balance(world.bob.pubkey())
        transaction = await world.sign([_transfer(world, 123)], [], blockhash=Hash(bytes(Keypair().pubkey())))
        simulated = await world.client.simulate_transaction(
            transaction,
            replace_recent_blockhash=True,
            inner_instructions=True,
            accounts_addresses=[world.bob.pubkey()],
        )
        assert simulated.value.err is None
        assert simulated.value.units_consumed == 150
        assert simulated.value.accounts[0].lamports == before + 123
        assert simulated.value.replacement_blockhash.last_valid_block_height > 0
        assert await world.balance(world.bob.pubkey()) == before
        unknown = await world.client.simulate_transaction(transaction)
        assert "BlockhashNotFound" in str(unknown.value.err)


class StepsNonce:
    async def step_create_the_account(self, world):
        type(self).account, payer = Keypair(), world.payer.pubkey()
        create = create_nonce_account(payer, self.account.pubkey(), payer, await world.rent(NONCE_SIZE))
        signature = await world.send(create, [self.account])
        # A nonce advances to another value only in a later block than the one that set it.
        await world.slot_after((await world.transaction(signature)).slot)

    async def step_a_transaction_on_it_lands_and_advances_it(self, world):
        used, error = await self._send(world, 1_000)
        assert error is None
        await self._advanced(world, used)
        await world.slot_after((await world.client.get_slot(Confirmed)).value)

    async def step_a_failing_transaction_on_it_advances_it_too(self, world):
        used, error = await self._send(world, 10**15)
        assert error == TransactionErrorInstructionError(1, CUSTOM_1)
        await self._advanced(world, used)

    async def _send(self, world, lamports):
        used = await self._nonce(world)
        advance = advance_nonce_account(
            AdvanceNonceAccountParams(nonce_pubkey=self.account.pubkey(), authorized_pubkey=world.payer.pubkey())
        )
        move = _transfer(world, lamports, source=world.alice)
        transaction = await world.sign([advance, move], [world.alice], blockhash=used)
        _, error = await world.send_unchecked(transaction)
        return used, error

    async def _nonce(self, world):
        data = (await world.client.get_account_info(self.account.pubkey())).value.data
        return Hash(bytes(data[40:72]))

    async def _advanced(self, world, used):
        async def other():
            return await self._nonce(world) != used

        await until("the nonce to advance", other)
