"""Compares poller with kube-scheduler's own plugins, on random clusters."""
