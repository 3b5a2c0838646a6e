"""A program over the upgradeable loader: buffer, chunks, deploy, call, upgrade, call again.

solders has no instructions for this loader, so they are laid out here as its users do.
"""

import asyncio
import struct

from solana.rpc.commitment import Confirmed
from solana.rpc.models import TxOpts
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.system_program import CreateAccountParams, create_account
from solders.sysvar import CLOCK, RENT
from spl.memo.instructions import create_memo
from spl.memo.models import MemoParams
from spl.token.instructions import create_associated_token_account

from tokens import StepsToken

LOADER = Pubkey.from_string("BPFLoaderUpgradeab1e11111111111111111111111")
BUFFER_HEADER = 37
PROGRAM_SIZE = 36
CHUNK = 1_000


def _loader(data, *keys):
    metas = [AccountMeta(key, is_signer="s" in flags, is_writable="w" in flags) for key, flags in keys]
    return Instruction(LOADER, data, metas)


class StepsProgram:
    async def step_write_the_elf_to_a_buffer_and_deploy_it(self, world):
        kept, payer, program, elf = type(self), world.payer.pubkey(), Keypair(), world.program_elf()
        kept.program = program.pubkey()
        kept.program_data, _ = Pubkey.find_program_address([bytes(kept.program)], LOADER)
        buffer = await self._filled_buffer(world, elf)
        create = await self._create(world, program, PROGRAM_SIZE)
        deploy = _loader(
            struct.pack("<IQ", 2, len(elf)),
            (payer, "ws"), (kept.program_data, "w"), (kept.program, "w"), (buffer, "w"),
            (RENT, ""), (CLOCK, ""), (SYSTEM_PROGRAM, ""), (payer, "s"),
        )  # fmt: skip
        signature = await world.send([create, deploy], [program])
        account = (await world.client.get_account_info_json_parsed(kept.program)).value
        assert account.executable
        assert account.data.parsed == {"type": "program", "info": {"programData": str(kept.program_data)}}
        await world.slot_after((await world.transaction(signature)).slot)

    async def step_call_it_and_it_calls_others(self, world):
        """The deployed program is the associated token account program. It derives accounts from its own address."""
        token, owner = StepsToken.program, world.alice.pubkey()
        seeds = [bytes(owner), bytes(token), bytes(StepsToken.mint)]
        account, _ = Pubkey.find_program_address(seeds, self.program)
        usual = create_associated_token_account(world.payer.pubkey(), owner, StepsToken.mint, token)
        metas = usual.accounts
        metas[1] = AccountMeta(account, is_signer=False, is_writable=True)
        logs = await self._call(world, Instruction(self.program, usual.data, metas))
        assert logs[0] == f"Program {self.program} invoke [1]"
        assert f"Program {token} invoke [2]" in logs
        assert (await world.client.get_token_account_balance(account)).value.amount == "0"

    async def step_upgrade_it_and_the_call_answers_as_the_new_build(self, world):
        payer = world.payer.pubkey()
        buffer = await self._filled_buffer(world, world.upgrade_elf())
        upgrade = _loader(
            struct.pack("<I", 3),
            (self.program_data, "w"), (self.program, "w"), (buffer, "w"), (payer, "w"),
            (RENT, ""), (CLOCK, ""), (payer, "s"),
        )  # fmt: skip
        slot = (await world.transaction(await world.send([upgrade]))).slot
        parsed = (await world.client.get_account_info_json_parsed(self.program_data)).value.data.parsed
        assert (parsed["type"], parsed["info"]["slot"]) == ("programData", slot)
        await world.slot_after(slot)
        payer = world.payer.pubkey()
        logs = await self._call(
            world, create_memo(MemoParams(program_id=self.program, signer=payer, message=b"second"))
        )
        assert "Program log: Memo (len 6)" in logs

    async def _call(self, world, instruction):
        landed = await world.transaction(await world.send([instruction]))
        return landed.transaction.meta.log_messages

    async def _create(self, world, account, size):
        return create_account(
            CreateAccountParams(
                from_pubkey=world.payer.pubkey(),
                to_pubkey=account.pubkey(),
                lamports=await world.rent(size),
                space=size,
                owner=LOADER,
            )
        )

    async def _filled_buffer(self, world, elf):
        buffer, payer = Keypair(), world.payer.pubkey()
        create = await self._create(world, buffer, BUFFER_HEADER + len(elf))
        initialize = _loader(struct.pack("<I", 0), (buffer.pubkey(), "w"), (payer, ""))
        await world.send([create, initialize], [buffer])

        unchecked = TxOpts(skip_preflight=True, preflight_commitment=Confirmed)
        sending = []
        for at in range(0, len(elf), CHUNK):
            chunk = elf[at : at + CHUNK]
            data = struct.pack("<IIQ", 1, at, len(chunk)) + chunk
            transaction = await world.sign([_loader(data, (buffer.pubkey(), "w"), (payer, "s"))], [])
            sending.append(world.client.send_transaction(transaction, unchecked))
        for sent in await asyncio.gather(*sending):
            assert await world.confirmed(sent.value) is None
        account = (await world.client.get_account_info(buffer.pubkey())).value
        assert account.data[BUFFER_HEADER:] == elf
        return buffer.pubkey()
