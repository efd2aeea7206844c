"""The lab's lessons, in a terminal: a page, a shell beside a cluster, and a look at what was done there."""
