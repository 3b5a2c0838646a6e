"""The Kaspa Python SDK against a running node: the main flow, step by step, in this order."""

from calls import StepsCalls, StepsErrors, StepsNode
from notifications import StepsSubscriptions
from wallets import StepsPayments, StepsRestart, StepsUtxoContext, StepsWallet

# The order of the flow; conftest.py sorts by it.
FLOW = [
    StepsNode,
    StepsCalls,
    StepsErrors,
    StepsSubscriptions,
    StepsPayments,
    StepsUtxoContext,
    StepsRestart,
    StepsWallet,
]
