"""Takes part in the leader election while poller runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from lib.kube.api import Api, always
from lib.kube.lease import Candidate, LeaderElection
from lib.kube.system import System
from lib.service.shutdown import Shutdown, Stopped


@contextmanager
def elected(
    election: LeaderElection | None, address: str, shutdown: Shutdown, system: System
) -> Iterator[Callable[[], bool]]:
    """A function that says whether we lead; without an election, always.

    When the lease is lost, poller ends at once. When poller ends for another reason, the lease is released,
    unless a write may still be in flight.
    """
    if not election:
        yield always
        return
    timeout = httpx.Timeout(election.renew_deadline / 2)
    with Api(address, shutdown.stopping, timeout=timeout, system=system) as api:
        candidate = Candidate(api, election, shutdown.abort)
        candidate.start()
        try:
            yield candidate.leads
        except Stopped:
            candidate.stop()
            if not shutdown.told_twice:
                candidate.release()
            raise
        finally:
            candidate.stop()
