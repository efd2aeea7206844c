"""How fast poller is, beside other schedulers, on an API server of the bench's own."""
