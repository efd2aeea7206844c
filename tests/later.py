"""A machine whose clock can be put forward."""

import time

from lib.kube.system import System


class Later(System):
    """The machine, so many seconds later."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.monotonic = lambda: time.monotonic() + self.seconds
