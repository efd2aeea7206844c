"""What a signal does: in a block that writes, and outside; the first one, and the second."""

import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from lib.kube.system import System
from lib.service.shutdown import LAST_MOMENTS, Shutdown, Stopped


class Machine(System):
    """One that never ends this process. ends: after how many seconds it was to."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def end_process_in(self, seconds: float) -> None:
        self.ends.append(seconds)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def shutdown(machine: Machine) -> Iterator[Shutdown]:
    with Shutdown(machine) as shutdown:
        yield shutdown


def term() -> None:
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_poller_at_once_when_it_does_not_write(
    shutdown: Shutdown, machine: Machine, number: signal.Signals
) -> None:
    with pytest.raises(Stopped):
        signal.raise_signal(number)
    assert (shutdown.stopping.is_set(), shutdown.signal, shutdown.impatient) == (True, number, False)
    assert machine.ends == []


def test_a_block_that_writes_is_finished_first(shutdown: Shutdown) -> None:
    written: list[int] = []

    def write() -> None:
        with shutdown.held():
            term()
            written.append(1)

    with pytest.raises(Stopped):
        write()
    assert written == [1]


def test_after_a_block_that_writes_a_signal_stops_poller_at_once(shutdown: Shutdown) -> None:
    with shutdown.held():
        pass
    with pytest.raises(Stopped):
        term()


def test_a_second_signal_stops_poller_within_a_block_that_writes_and_lets_it_end_soon(
    shutdown: Shutdown, machine: Machine
) -> None:
    ends: list[list[float]] = []

    def write() -> None:
        with shutdown.held():
            for _ in range(3):
                term()
                ends.append(machine.ends.copy())

    with pytest.raises(Stopped):
        write()
    assert ends == [[]]
    assert (shutdown.impatient, machine.ends) == (True, [LAST_MOMENTS])


def test_a_part_of_such_a_block_in_which_poller_decides_is_interrupted(shutdown: Shutdown) -> None:
    done: list[str] = []

    def decide(*, signal_comes_before: bool) -> None:
        with shutdown.held():
            with shutdown.interruptible():
                done.append("decided")
            if signal_comes_before:
                term()
            done.append("written")
            with shutdown.interruptible():
                done.append("deciding")
                term()
                done.append("decided")

    with pytest.raises(Stopped):
        decide(signal_comes_before=True)
    assert done == ["decided", "written"]
    shutdown.stopping.clear()
    done.clear()
    with pytest.raises(Stopped):
        decide(signal_comes_before=False)
    assert done == ["decided", "written", "deciding"]


@pytest.mark.parametrize(
    "step", [Shutdown.raise_if_stopped, lambda shutdown: shutdown.wait(0.0)], ids=["check", "wait"]
)
def test_it_is_told_again_to_stop_if_other_code_has_swallowed_that(
    shutdown: Shutdown, step: Callable[[Shutdown], None]
) -> None:
    step(shutdown)
    with pytest.raises(Stopped):
        term()
    with pytest.raises(Stopped):
        step(shutdown)


def test_poller_can_end_itself_without_waiting_for_writes(shutdown: Shutdown, machine: Machine) -> None:
    """If it may lead no longer, say, no further write may follow."""

    def write() -> None:
        with shutdown.held():
            shutdown.abort()
            shutdown.wait(60)

    with pytest.raises(Stopped):
        write()
    assert (shutdown.aborted, shutdown.impatient, shutdown.signal) == (True, True, None)
    assert machine.ends == [LAST_MOMENTS]


@pytest.mark.parametrize("nohup", [True, False])
def test_a_terminal_that_is_closed_ends_poller_but_not_under_nohup(machine: Machine, nohup: bool) -> None:
    handler = signal.SIG_IGN if nohup else signal.SIG_DFL
    before = signal.signal(signal.SIGHUP, handler)
    try:
        with Shutdown(machine) as shutdown, nullcontext() if nohup else pytest.raises(Stopped):
            signal.raise_signal(signal.SIGHUP)
        assert shutdown.stopping.is_set() != nohup
        assert signal.getsignal(signal.SIGHUP) == handler
    finally:
        signal.signal(signal.SIGHUP, before)
