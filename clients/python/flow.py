"""solana-py with solders against a running node: the main flow, step by step, in this order."""

from history import StepsFinalized, StepsToken2022History, StepsTokenHistory
from node import StepsNode
from programs import StepsProgram
from subscriptions import StepsSubscriptions
from tokens import StepsToken, StepsToken2022
from transactions import StepsFailing, StepsLookupTable, StepsNonce, StepsSimulate

from world import LAMPORTS_PER_SOL


class StepsAirdrop:
    async def step_airdrop(self, world):
        for owner in [world.payer, world.alice, world.bob]:
            await world.airdrop(owner.pubkey(), 10)
        assert await world.balance(world.payer.pubkey()) == 10 * LAMPORTS_PER_SOL


# The order of the flow; conftest.py sorts by it.
FLOW = [
    StepsNode,
    StepsAirdrop,
    StepsToken,
    StepsToken2022,
    StepsSubscriptions,
    StepsFailing,
    StepsLookupTable,
    StepsSimulate,
    StepsNonce,
    StepsProgram,
    StepsTokenHistory,
    StepsToken2022History,
    StepsFinalized,
]
