"""poller.py with a fault in it: `python -m scripts.simulation.mutated MUTATION OPTIONS`, for `--real`."""

import sys
from contextlib import ExitStack

import lib.startup
from poller import loop

from .mutations import MUTATIONS

if __name__ == "__main__":
    with ExitStack() as stack:
        for each in MUTATIONS[sys.argv.pop(1)]():
            stack.enter_context(each)
        lib.startup.run(loop)
