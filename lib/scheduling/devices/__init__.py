"""Devices: which of them the claims of a pod get (dynamic resource allocation)."""
