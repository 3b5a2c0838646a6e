"""How the steps of an asynchronous client run: one event loop, one world, in order, 60 seconds each.

A step is an `async def step_...(self, world)`. The loop outlives it, so that a client or a socket that is opened in one
step still listens in the next. A flow is a file with `FLOW`, the list of its classes, next to a module `world` with the
class `World`.
"""

import asyncio

import pytest

STEP_SECONDS_MAX = 60


@pytest.fixture(scope="session")
def world():
    from world import World

    with asyncio.Runner() as loop:
        world = loop.run(World.connect())
        world.loop = loop
        yield world
        loop.run(world.close())


def pytest_collection_modifyitems(items):
    """The order is that of the flow's own list. Collection would follow the imports."""
    items.sort(key=lambda item: item.module.FLOW.index(item.cls))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    world = pyfuncitem.funcargs["world"]
    world.loop.run(asyncio.wait_for(pyfuncitem.obj(world), STEP_SECONDS_MAX))
    return True
