"""The life of a token, once for each token program, with reads after each step."""

from solana.rpc.commitment import Confirmed
from solana.rpc.models import DataSliceOpts, MemcmpOpts, TokenAccountOpts
from solders.keypair import Keypair
from solders.rpc.config import RpcTransactionLogsFilterMentions
from solders.system_program import CreateAccountParams, create_account
from spl.token import models
from spl.token import instructions as token
from spl.token.constants import MINT_LEN, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID

from world import token_amount

DECIMALS = 2


class TokenLife:
    """The steps; a class below names the program. State for later steps is stored in the class."""

    program = None
    parsed_as = None

    async def step_create_the_mint(self, world):
        kept, payer, mint = type(self), world.payer.pubkey(), Keypair()
        kept.mint = mint.pubkey()
        create = create_account(
            CreateAccountParams(
                from_pubkey=payer,
                to_pubkey=mint.pubkey(),
                lamports=await world.rent(MINT_LEN),
                space=MINT_LEN,
                owner=self.program,
            )
        )
        initialize = token.initialize_mint2(
            models.InitializeMint2Params(
                decimals=DECIMALS, program_id=self.program, mint=mint.pubkey(), mint_authority=payer
            )
        )
        await world.send([create, initialize], [mint])
        parsed = (await world.client.get_account_info_json_parsed(mint.pubkey())).value.data.parsed
        assert (parsed["type"], parsed["info"]["decimals"]) == ("mint", DECIMALS)

    async def step_create_two_associated_accounts(self, world):
        kept, owners = type(self), [world.alice.pubkey(), world.bob.pubkey()]
        kept.alice, kept.bob = (token.get_associated_token_address(owner, self.mint, self.program) for owner in owners)
        create = [
            token.create_associated_token_account(world.payer.pubkey(), owner, self.mint, self.program)
            for owner in owners
        ]
        kept.created = await world.send(create)
        assert (await world.client.get_token_account_balance(self.alice)).value.amount == "0"

    async def step_subscribe_to_the_account_the_program_and_the_logs(self, world):
        kept, socket = type(self), world.socket
        kept.account_changes = await socket.account_subscribe(pubkey=self.alice, commitment=Confirmed, encoding="base64")
        kept.program_changes = await socket.program_subscribe(
            program_id=self.program,
            commitment=Confirmed,
            encoding="base64",
            filters=[MemcmpOpts(offset=0, bytes=str(self.mint)), MemcmpOpts(offset=32, bytes=str(world.bob.pubkey()))],
        )
        kept.logs = await socket.logs_subscribe(
            filter_=RpcTransactionLogsFilterMentions(self.alice), commitment=Confirmed
        )

    async def step_mint(self, world):
        type(self).minted = await world.send(
            [
                token.mint_to_checked(
                    models.MintToCheckedParams(
                        program_id=self.program,
                        mint=self.mint,
                        dest=self.alice,
                        mint_authority=world.payer.pubkey(),
                        amount=1_000,
                        decimals=DECIMALS,
                    )
                )
            ]
        )
        supply = (await world.client.get_token_supply(self.mint)).value
        assert (supply.amount, supply.decimals, supply.ui_amount_string) == ("1000", DECIMALS, "10")

    async def step_transfer(self, world):
        type(self).transferred = await world.send([self._transfer(world.alice.pubkey(), 300)], [world.alice])
        assert await self._amount(world, self.alice) == 700
        assert (await world.client.get_token_account_balance(self.bob)).value.ui_amount_string == "3"

    async def step_delegate_and_the_delegate_spends(self, world):
        approve = token.approve_checked(
            models.ApproveCheckedParams(
                program_id=self.program,
                source=self.alice,
                mint=self.mint,
                delegate=world.bob.pubkey(),
                owner=world.alice.pubkey(),
                amount=200,
                decimals=DECIMALS,
            )
        )
        type(self).approved = await world.send([approve], [world.alice])
        await world.send([self._transfer(world.bob.pubkey(), 50)], [world.bob])
        assert await self._amount(world, self.alice) == 650

    async def step_accounts_by_owner_by_delegate_and_by_program(self, world):
        client, by_mint = world.client, TokenAccountOpts(mint=self.mint)
        owned = (await client.get_token_accounts_by_owner_json_parsed(world.alice.pubkey(), by_mint)).value
        assert [entry.pubkey for entry in owned] == [self.alice]
        data = owned[0].account.data
        assert data.program == self.parsed_as
        assert data.parsed["info"]["tokenAmount"]["amount"] == "650"
        assert data.parsed["info"]["delegatedAmount"]["amount"] == "150"
        by_program = TokenAccountOpts(program_id=self.program)
        delegated = (await client.get_token_accounts_by_delegate(world.bob.pubkey(), by_program)).value
        assert [(entry.pubkey, token_amount(entry.account.data)) for entry in delegated] == [(self.alice, 650)]
        raw = (await client.get_token_accounts_by_owner(world.bob.pubkey(), by_mint)).value
        assert [token_amount(entry.account.data) for entry in raw] == [350]
        holders = await client.get_program_accounts(
            self.program,
            encoding="base64",
            data_slice=DataSliceOpts(offset=64, length=8),
            filters=[MemcmpOpts(offset=0, bytes=str(self.mint))],
        )
        amounts = sorted(int.from_bytes(entry.account.data, "little") for entry in holders.value)
        assert amounts == [350, 650]
        largest = (await client.get_token_largest_accounts(self.mint)).value
        assert [(entry.address, entry.amount.amount) for entry in largest] == [(self.alice, "650"), (self.bob, "350")]

    async def step_burn(self, world):
        burn = token.burn_checked(
            models.BurnCheckedParams(
                program_id=self.program,
                mint=self.mint,
                account=self.alice,
                owner=world.alice.pubkey(),
                amount=650,
                decimals=DECIMALS,
            )
        )
        type(self).burnt = await world.send([burn], [world.alice])
        assert (await world.client.get_token_supply(self.mint)).value.amount == "350"

    async def step_close_the_account(self, world):
        close = token.close_account(
            models.CloseAccountParams(
                program_id=self.program,
                account=self.alice,
                dest=world.bob.pubkey(),
                owner=world.alice.pubkey(),
            )
        )
        before = await world.balance(world.bob.pubkey())
        type(self).closed = await world.send([close], [world.alice])
        assert (await world.client.get_account_info(self.alice)).value is None
        assert await world.balance(world.bob.pubkey()) > before

    async def step_every_change_was_notified(self, world):
        heard = world.heard
        closed = await heard.next(self.account_changes, lambda item: item.value.lamports == 0)
        assert closed.value.data == b""
        seen = [token_amount(item.value.data) if item.value.data else None for item in heard.all(self.account_changes)]
        assert [now for at, now in enumerate(seen) if at == 0 or now != seen[at - 1]] == [1_000, 700, 650, 0, None]
        bobs = await heard.next(self.program_changes, lambda item: token_amount(item.value.account.data) == 350)
        assert bobs.value.pubkey == self.bob
        for signature in [self.minted, self.transferred, self.approved, self.burnt, self.closed]:
            entry = await heard.next(self.logs, lambda item, wanted=signature: item.value.signature == wanted)
            assert entry.value.err is None
            assert f"Program {self.program} success" in entry.value.logs
        for subscription in [self.account_changes, self.program_changes, self.logs]:
            await world.socket.unsubscribe(subscription)

    def _transfer(self, authority, amount):
        return token.transfer_checked(
            models.TransferCheckedParams(
                program_id=self.program,
                source=self.alice,
                mint=self.mint,
                dest=self.bob,
                owner=authority,
                amount=amount,
                decimals=DECIMALS,
            )
        )

    async def _amount(self, world, account):
        return token_amount((await world.client.get_account_info(account)).value.data)


class StepsToken(TokenLife):
    program = TOKEN_PROGRAM_ID
    parsed_as = "spl-token"


class StepsToken2022(TokenLife):
    program = TOKEN_2022_PROGRAM_ID
    parsed_as = "spl-token-2022"
