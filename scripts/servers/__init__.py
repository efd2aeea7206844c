"""API servers to run poller against, real or embedded, and a real `kubectl proxy` in front of one."""
