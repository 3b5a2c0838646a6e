"""Mines blocks through a node of simnet, by hand: `python mine.py ws://127.0.0.1:17510 1010`.

First the given number of blocks as fast as possible, then one in each second until it is ended.
"""

import asyncio
import sys

from kaspa import NetworkId, PrivateKey, RpcClient

MINER = PrivateKey("9" * 64).to_keypair().to_address("simnet").to_string()


async def main(url, blocks):
    client = RpcClient(url=url, network_id=NetworkId("simnet"))
    await client.connect()
    mined = 0
    while True:
        template = await client.get_block_template({"payAddress": MINER, "extraData": []})
        submitted = await client.submit_block({"block": template["block"], "allowNonDaaBlocks": False})
        assert submitted["report"]["type"] == "success", submitted
        mined += 1
        if mined == blocks:
            print(f"mined {blocks} blocks", flush=True)
        if mined >= blocks:
            await asyncio.sleep(1)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
