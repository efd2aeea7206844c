"""Groups of pods: all of a group get a node, or none does."""
