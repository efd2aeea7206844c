"""Compares poller's speed with other schedulers', on the bench's own API server."""
