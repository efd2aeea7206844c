"""poller's own library, in layers: service > scheduling > kube."""

import gc

# What is imported is many objects, and so is a list of pods: none of them is garbage to be looked for.
gc.set_threshold(100_000)
