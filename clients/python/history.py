"""Reads of the earlier steps' transactions: by signature, by address, by block, parsed and not."""

from solana.rpc.commitment import Confirmed, Finalized
from solders.transaction_status import TransactionConfirmationStatus, TransactionDetails

from tokens import StepsToken, StepsToken2022
from world import until


class TokenHistory:
    token = None

    async def step_a_transaction_raw_and_parsed(self, world):
        token = self.token
        raw = (await world.transaction(token.transferred)).transaction
        keys = raw.transaction.message.account_keys
        balances = {keys[entry.account_index]: entry for entry in raw.meta.post_token_balances}
        after = balances[token.bob]
        assert (after.ui_token_amount.amount, after.mint, after.owner) == ("300", token.mint, world.bob.pubkey())
        assert after.program_id == token.program
        parsed = (await world.transaction(token.transferred, "jsonParsed")).transaction.transaction
        instruction = parsed.message.instructions[0]
        assert (instruction.program_id, instruction.parsed["type"]) == (token.program, "transferChecked")
        assert instruction.parsed["info"]["tokenAmount"]["uiAmountString"] == "3"
        kinds = []
        for signature in [token.minted, token.approved, token.burnt, token.closed]:
            each = (await world.transaction(signature, "jsonParsed")).transaction.transaction
            kinds.append(each.message.instructions[0].parsed["type"])
        assert kinds == ["mintToChecked", "approveChecked", "burnChecked", "closeAccount"]
        created = (await world.transaction(token.created, "jsonParsed")).transaction.meta
        inner = [each.parsed["type"] for group in created.inner_instructions for each in group.instructions]
        assert "initializeAccount3" in inner

    async def step_signatures_newest_first_in_pages(self, world):
        token, client = self.token, world.client
        listed = (await client.get_signatures_for_address(token.alice, commitment=Confirmed)).value
        signatures = [entry.signature for entry in listed]
        known = [token.closed, token.burnt, token.approved, token.transferred, token.minted, token.created]
        assert [signature for signature in signatures if signature in known] == known
        page = await client.get_signatures_for_address(
            token.alice, before=signatures[0], until=signatures[3], limit=10, commitment=Confirmed
        )
        assert [entry.signature for entry in page.value] == signatures[1:3]

    async def step_the_block_at_each_level_of_detail(self, world):
        client, minted = world.client, self.token.minted
        slot = (await world.transaction(minted)).slot
        full = (await client.get_block(slot, "base64", 0, commitment=Confirmed)).value
        assert full.parent_slot == slot - 1
        assert len(full.transactions) > 0
        parsed = (await client.get_block(slot, "jsonParsed", 0, commitment=Confirmed)).value
        assert minted in [each.transaction.signatures[0] for each in parsed.transactions]
        names = (await client.get_block(slot, "json", 0, TransactionDetails.Signatures, False, Confirmed)).value
        assert minted in names.signatures
        none = (await client.get_block(slot, "json", 0, TransactionDetails.None_, False, Confirmed)).value
        assert none.blockhash == full.blockhash
        assert (await client.get_block_time(slot)).value == full.block_time


class StepsTokenHistory(TokenHistory):
    token = StepsToken


class StepsToken2022History(TokenHistory):
    token = StepsToken2022


class StepsFinalized:
    async def step_what_was_confirmed_becomes_final(self, world):
        client, signature = world.client, StepsToken.closed

        async def final():
            status = (await client.get_signature_statuses([signature], True)).value[0]
            return status.confirmation_status == TransactionConfirmationStatus.Finalized

        await until("the status to be finalized", final)
        slot = (await world.transaction(signature, commitment=Finalized)).slot
        assert slot in (await client.get_blocks(slot, slot + 5)).value

    async def step_many_accounts_fees_and_counts(self, world):
        client = world.client
        keys = [world.payer.pubkey(), StepsToken.mint, StepsToken.alice]
        many = (await client.get_multiple_accounts(keys)).value
        assert [entry and entry.owner == StepsToken.program for entry in many] == [False, True, None]
        parsed = (await client.get_multiple_accounts_json_parsed(keys[1:2])).value
        assert parsed[0].data.parsed["type"] == "mint"
        assert len((await client.get_recent_prioritization_fees([world.payer.pubkey()])).value) > 0
        assert (await client.get_transaction_count()).value > 10
        latest = (await client.get_latest_blockhash()).value
        assert latest.last_valid_block_height > (await client.get_block_height()).value
