"""Logs where a policy is that runs for a long time.

poller is synchronous: while a function of a policy runs, nothing else happens.
"""

import logging
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from traceback import walk_stack, walk_tb
from types import FrameType

from lib.kube.system import MACHINE
from lib.scheduling.framework.position import Position, position_in

log = logging.getLogger("poller")

LONG = 10.0
"""Seconds after which a call of a policy's function is logged; the next line comes after twice as many."""

LOOK = 1.0
"""Seconds between two checks of what is running."""


@contextmanager
def watching(files: Collection[str], long: float = LONG) -> Iterator[None]:
    """Log calls of policies that take long, and the call that runs when an exception ends the block.

    files: those of the policies, as in their frames. Another thread checks once a second whether their code
    runs in this one. Without files there is no other thread.
    """
    if not files:
        yield
        return
    done = MACHINE.event()
    run = partial(_watch, set(files), threading.get_ident(), done, long)
    watch = MACHINE.start_thread(run, "policy-watch")
    try:
        yield
    except BaseException as error:
        if position := _interrupted(files, error):
            log.warning("the policy that was running was interrupted: %s", position)
        raise
    finally:
        done.set()
        watch.join()


def _watch(files: Collection[str], thread: int, done: threading.Event, long: float) -> None:
    """Check a thread until `done`. A frame that is there at each check is a call that takes long."""
    step = min(LOOK, long / 4)
    call: FrameType | None = None
    running, said = 0.0, long
    while not done.wait(step):
        stack = [*walk_stack(sys._current_frames().get(thread))]
        own = [frame for frame, _ in stack if frame.f_code.co_filename in files]
        if not own or own[-1] is not call:
            call, running, said = own[-1] if own else None, 0.0, long
            continue
        running += step
        if running >= said and (position := position_in(files, reversed(stack))):
            log.warning(
                "a policy has been running for %.0f s, and all pods wait for it: %s", running, position
            )
            said *= 2


def _interrupted(files: Collection[str], error: BaseException | None) -> Position | None:
    """Where a policy was when this was raised; None if none was running."""
    while error:
        if position := position_in(files, walk_tb(error.__traceback__)):
            return position
        error = error.__context__
    return None
