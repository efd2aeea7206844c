"""poller's own library, in layers: service > scheduling > kube."""

__version__ = "0.2.0"
"""poller's version: shown by --version, the log's first line, poller_build_info and the User-Agent."""
