"""poller as a running program: options, the steps of the loop, writes, shutdown, and reports."""
