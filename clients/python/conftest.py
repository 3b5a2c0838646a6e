"""Its steps are asynchronous: `async_steps` runs them."""

import pytest

pytest.register_assert_rewrite("world", "node", "tokens", "subscriptions", "transactions", "programs", "history")

pytest_plugins = ["async_steps"]
