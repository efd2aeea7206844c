"""Records what becomes of a cluster's nodes and pods, as they come and go, into a file for `replay`."""
