"""Which of several pollers leads: this one takes part in the election for as long as it serves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from lib.kube.api import Api, always
from lib.kube.lease import Candidate, LeaderElection
from lib.service.shutdown import Shutdown, Stopped


@contextmanager
def elected(
    election: LeaderElection | None, address: str, shutdown: Shutdown
) -> Iterator[Callable[[], bool]]:
    """Whether we lead, at any time; always, if there is no election.

    When the lease is lost poller is ended at once. When poller ends otherwise the lease is released, unless
    something may still be being written.
    """
    if not election:
        yield always
        return
    with Api(address, shutdown.stopping, timeout=httpx.Timeout(election.renew_deadline / 2)) as api:
        candidate = Candidate(api, election, shutdown.abort)
        candidate.start()
        try:
            yield candidate.leads
        except Stopped:
            candidate.stop()
            if not shutdown.hurried:
                candidate.release()
            raise
        finally:
            candidate.stop()
