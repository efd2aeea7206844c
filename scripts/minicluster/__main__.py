"""`python -m scripts.minicluster`: starts the server, prints its URL, and serves until it gets a signal."""

import argparse
import asyncio
import contextlib
import socket
from types import FrameType

import uvicorn

from .api import Api
from .app import build
from .cluster import furnish
from .controllers import Controllers
from .kubelet import Kubelets
from .store import Store


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.minicluster", description=__doc__)
    parser.add_argument("--nodes", type=int, default=3, help="how many nodes there are (default %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="0 picks a free one (default %(default)s)")
    parser.add_argument(
        "--kubelet-delay",
        type=float,
        default=0.5,
        metavar="SECONDS",
        help="until a bound pod runs, or a deleted one is gone (default %(default)s)",
    )
    parser.add_argument(
        "--provision-delay",
        type=float,
        default=0.5,
        metavar="SECONDS",
        help="until a volume of the provisioner minicluster is made (default %(default)s)",
    )
    parser.add_argument(
        "--history",
        type=int,
        default=10_000,
        metavar="EVENTS",
        help="of each resource that a watch can look back on, before 410 Gone (default %(default)s)",
    )
    parser.add_argument(
        "--bare",
        action="store_true",
        help="the API alone, as kube-apiserver is by itself: nothing runs pods, no controller acts",
    )
    return parser.parse_args()


class Server(uvicorn.Server):
    """Prints when it is ready. At its end it first ends the watches: else it would wait for them."""

    def __init__(self, config: uvicorn.Config, store: Store, nodes: int) -> None:
        super().__init__(config)
        self._store = store
        self._nodes = nodes

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            host, port = server.sockets[0].getsockname()[:2]
            print(f"minicluster with {self._nodes} nodes: http://{host}:{port}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        asyncio.get_running_loop().call_soon_threadsafe(self._store.close)


async def serve(chosen: argparse.Namespace) -> None:
    store = Store(chosen.history)
    api = Api(store)
    furnish(api, chosen.nodes)
    if not chosen.bare:
        Kubelets(api, chosen.kubelet_delay)
        controllers = asyncio.create_task(Controllers(api, chosen.provision_delay).run())
    config = uvicorn.Config(
        build(api),
        host=chosen.host,
        port=chosen.port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,  # longer than the pauses of a client that polls
        timeout_graceful_shutdown=1,
    )
    await Server(config, store, chosen.nodes).serve()
    if not chosen.bare:
        controllers.cancel()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has ended then, and raises the signal again
        asyncio.run(serve(options()))
