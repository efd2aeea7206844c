"""poller's own library, in layers: service > scheduling > kube."""
