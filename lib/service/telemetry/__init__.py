"""poller's log, metrics, health checks, reports and explanations."""
