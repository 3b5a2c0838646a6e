"""What all steps share: the channel, the stub, JSON-RPC. A wait is for a message, 30 seconds at most."""

import json
import os
import queue
import urllib.request

import grpc
import pytest

from stubs import messages, services

WAIT_SECONDS_MAX = 30


class World:
    def __init__(self):
        self.address = os.environ["HYDRANT_GRPC_URL"].removeprefix("http://")
        self.channel = self.open()
        self.geyser = services.GeyserStub(self.channel)

    def open(self, **arguments):
        return grpc.insecure_channel(
            self.address, options=[("grpc.max_receive_message_length", 64 << 20)], **arguments
        )

    def rpc(self, method, *params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(
            os.environ["HYDRANT_RPC_URL"], body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS_MAX) as response:
            answer = json.load(response)
        assert "error" not in answer, answer
        return answer["result"]

    def subscribe(self, geyser=None, **filters):
        return Subscription(geyser or self.geyser, messages.SubscribeRequest(**filters))


class Subscription:
    """A stream with its updates so far."""

    def __init__(self, geyser, request):
        self.requests = queue.SimpleQueue()
        self.requests.put(request)
        self.updates = []
        self.stream = geyser.Subscribe(iter(self.requests.get, None), timeout=WAIT_SECONDS_MAX)

    def send(self, **filters):
        self.requests.put(messages.SubscribeRequest(**filters))

    def find(self, kind, matches=lambda update: True):
        """The next update of a kind, received from now on."""
        for update in self.stream:
            self.updates.append(update)
            if update.WhichOneof("update_oneof") == kind and matches(getattr(update, kind)):
                return getattr(update, kind)
        raise AssertionError(f"the stream ended without {kind}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.requests.put(None)
        self.stream.cancel()


@pytest.fixture(scope="session")
def world():
    world = World()
    yield world
    world.channel.close()
