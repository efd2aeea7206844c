"""`python -m poller`."""

from poller import main

main()
