"""poller's own library, in layers: service > scheduling > kube."""

import sys

__version__ = "0.2.0"
"""poller's version: shown by --version, the log's first line, poller_build_info and the User-Agent."""

# httpx imports a command line of its own, and with it rich, which takes 50 ms. Nothing here uses that.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
