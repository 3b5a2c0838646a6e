"""A client that grpcio-tools makes of the proto, against a running node: the main flow, in this order."""

import json

import grpc
import pytest

from stubs import messages, services

FOUR_SYSVARS = 4


def base58(data):
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        text = alphabet[rest] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


class StepsCalls:
    def step_the_calls_agree_with_json_rpc(self, world):
        geyser = world.geyser
        assert geyser.Ping(messages.PingRequest(count=3)).count == 3
        assert geyser.GetSlot(messages.GetSlotRequest()).slot > 0
        assert geyser.GetBlockHeight(messages.GetBlockHeightRequest()).block_height > 0
        latest = geyser.GetLatestBlockhash(messages.GetLatestBlockhashRequest(commitment="FINALIZED"))
        assert world.rpc("isBlockhashValid", latest.blockhash, {"commitment": "processed"})["value"]
        valid = geyser.IsBlockhashValid(messages.IsBlockhashValidRequest(blockhash=latest.blockhash))
        assert valid.valid
        version = json.loads(geyser.GetVersion(messages.GetVersionRequest()).version)
        assert version["version"]["package"] == "hydrant"
        info = geyser.SubscribeReplayInfo(messages.SubscribeReplayInfoRequest())
        assert info.first_available <= geyser.GetSlot(messages.GetSlotRequest()).slot

    def step_gossip_has_the_nodes_of_the_cluster(self, world):
        stream = world.geyser.SubscribeGossip(messages.SubscribeGossipRequest(), timeout=30)
        found = set()
        # A node that has just started to follow knows them a second later. The timeout ends the stream.
        for update in stream:
            if update.HasField("snapshot"):
                found = {base58(node.pubkey) for node in update.snapshot.nodes}
            elif update.HasField("node"):
                found.add(base58(update.node.pubkey))
            elif update.HasField("removed"):
                found.discard(base58(update.removed.pubkey))
            try:
                expected = {node["pubkey"] for node in world.rpc("getClusterNodes")}
            except AssertionError:
                continue  # they are unknown yet
            if found == expected:
                break
        assert len(found) == 1
        stream.cancel()

    def step_deshred_is_not_served(self, world):
        with pytest.raises(grpc.RpcError) as raised:
            next(world.geyser.SubscribeDeshred(iter([messages.SubscribeDeshredRequest()])))
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


class StepsUpdates:
    def step_an_airdrop_as_account_transaction_and_status(self, world):
        to = world.rpc("getIdentity")["identity"]
        filters = {
            "accounts": {"account": {"account": [to]}},
            "transactions": {"transaction": {"account_include": [to], "vote": False}},
            "transactions_status": {"status": {"account_required": [to], "vote": False}},
        }
        with world.subscribe(**filters) as seen:
            seen.send(ping={"id": 1}, commitment=messages.CONFIRMED)
            seen.find("pong", lambda pong: pong.id == 1)
            signature = world.rpc("requestAirdrop", to, 1_000_000)
            account = seen.find("account", lambda it: base58(it.account.txn_signature) == signature)
            assert account.account.write_version > 0 and account.bank_id > 0
            transaction = seen.find("transaction")
            assert base58(transaction.transaction.signature) == signature
            assert not transaction.transaction.meta.HasField("err")
            status = seen.find("transaction_status")
            assert base58(status.signature) == signature and status.slot == transaction.slot

    def step_a_slot_in_order_and_without_holes(self, world):
        filters = {
            "accounts": {"all": {}},
            "transactions": {"all": {}},
            "slots": {"all": {"interslot_updates": True}},
            "blocks_meta": {"all": {}},
        }
        with world.subscribe(**filters) as seen:
            created = seen.find("slot", lambda it: it.status == messages.SLOT_CREATED_BANK)
            seen.find("slot", lambda it: (it.slot, it.status) == (created.slot, messages.SLOT_FINALIZED))
            of_slot = [
                (kind, update)
                for message in seen.updates
                for kind in [message.WhichOneof("update_oneof")]
                for update in [getattr(message, kind)]
                if kind != "ping" and update.slot == created.slot
            ]
        assert of_slot[0][1].status == messages.SLOT_CREATED_BANK
        assert {update.bank_id for _, update in of_slot} == {created.bank_id}
        written = {it.account.pubkey for kind, it in of_slot if kind == "account"}
        assert sum(base58(key).startswith("Sysvar") for key in written) >= FOUR_SYSVARS
        versions = [it.account.write_version for kind, it in of_slot if kind == "account"]
        assert versions == sorted(set(versions))
        numbers = [it.transaction.index for kind, it in of_slot if kind == "transaction"]
        assert numbers == list(range(len(numbers)))
        metas = [it for kind, it in of_slot if kind == "block_meta"]
        assert len(metas) == 1 and metas[0].executed_transaction_count == len(numbers)
        order = [it.status if kind == "slot" else kind for kind, it in of_slot]
        statuses = [it for it in order if not isinstance(it, str)]
        assert statuses == [
            messages.SLOT_CREATED_BANK,
            messages.SLOT_COMPLETED,
            messages.SLOT_PROCESSED,
            messages.SLOT_CONFIRMED,
            messages.SLOT_FINALIZED,
        ]
        last_content = max(at for at, it in enumerate(order) if it in ("account", "transaction"))
        assert last_content < order.index("block_meta") < order.index(messages.SLOT_PROCESSED)

    def step_filters_are_replaced(self, world):
        with world.subscribe(blocks_meta={"meta": {}}) as seen:
            seen.find("block_meta")
            seen.send(slots={"slot": {}})
            seen.send(ping={"id": 2})
            seen.find("pong", lambda pong: pong.id == 2)
            before = len(seen.updates)
            seen.find("slot", lambda it: it.status == messages.SLOT_FINALIZED)
            kinds = {update.WhichOneof("update_oneof") for update in seen.updates[before:]}
            assert kinds == {"slot"}

    def step_blocks_from_a_slot_in_the_past_and_each_once(self, world):
        first = world.geyser.SubscribeReplayInfo(messages.SubscribeReplayInfoRequest()).first_available
        from_slot = first + 5
        blocks = {"all": {"include_accounts": True}}
        with world.subscribe(blocks=blocks, from_slot=from_slot) as seen:
            slots = []
            # A block that is not made yet when the replay begins.
            live = max(from_slot, world.geyser.GetSlot(messages.GetSlotRequest()).slot) + 2
            while not slots or slots[-1] < live:
                block = seen.find("block")
                assert len(block.accounts) == block.updated_account_count >= FOUR_SYSVARS
                slots.append(block.slot)
        assert slots[0] == from_slot and slots == sorted(set(slots))

    def step_compression(self, world):
        for compression in [grpc.Compression.Gzip, grpc.Compression.Deflate]:
            with world.open(compression=compression) as channel:
                geyser = services.GeyserStub(channel)
                if compression == grpc.Compression.Deflate:
                    with pytest.raises(grpc.RpcError) as raised:
                        geyser.Ping(messages.PingRequest(count=5))
                    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
                    continue
                assert geyser.Ping(messages.PingRequest(count=5)).count == 5
                with world.subscribe(geyser, blocks={"all": {"include_accounts": True}}) as seen:
                    assert seen.find("block").updated_account_count >= FOUR_SYSVARS


class StepsErrors:
    def refused(self, world, **filters):
        with world.subscribe(**filters) as seen, pytest.raises(grpc.RpcError) as raised:
            seen.find("block")
        return raised.value

    def step_an_invalid_filter_says_why(self, world):
        error = self.refused(world, accounts={"bad": {"owner": ["x"]}})
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert 'accounts["bad"]: owner' in error.details()

    def step_a_slot_that_is_gone_is_out_of_range(self, world):
        info = messages.SubscribeReplayInfoRequest()
        with world.subscribe(slots={"all": {}}) as seen:
            while world.geyser.SubscribeReplayInfo(info).first_available == 0:
                seen.find("slot")
        error = self.refused(world, blocks={"all": {}}, from_slot=0)
        assert error.code() == grpc.StatusCode.OUT_OF_RANGE
        assert "the first available slot is" in error.details()
