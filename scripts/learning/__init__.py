"""The lab's lessons in a terminal: a page, a shell with a cluster, and checks of the tasks."""

import lib  # noqa: F401  # httpx loads no command line of its own then
