"""Compares poller's speed with other schedulers', on the bench's own API server."""

import lib  # noqa: F401  # httpx loads no command line of its own then
