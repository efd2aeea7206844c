"""What people install of poller, and how a release of it is made."""
