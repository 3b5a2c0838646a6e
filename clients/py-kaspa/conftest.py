"""Its steps are asynchronous: `async_steps` runs them."""

import pytest

pytest.register_assert_rewrite("world", "calls", "notifications", "wallets")

pytest_plugins = ["async_steps"]
