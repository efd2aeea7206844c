"""What poller says of itself: log, metrics, health, reports, explanations."""
