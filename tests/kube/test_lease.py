"""The rules of an election, with clocks that are turned by hand; the API server is real, or embedded."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from cluster import Cluster
from faults import ALWAYS, Answer, Exchange, Fault, FaultyProxy, faulty, lose_answer
from hypothesis import HealthCheck, given, settings, strategies as st

from lib.kube.api import Api
from lib.kube.election import LeaderElection
from lib.kube.errors import ApiError, ConflictError
from lib.kube.lease import Candidate
from lib.kube.system import System
from lib.version import full_version

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@dataclass
class Machine(System):
    """One that has its own idea of what the time is; its process never ends."""

    time: float

    def steady(self) -> float:
        return self.time

    def end_process_in(self, seconds: float) -> None:
        pass


@dataclass
class Election:
    """Candidates for a lease that nobody has held, each with a clock and a way to the server of its own."""

    server: str
    lease: str
    ways: ExitStack
    losses: list[int] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    apis: list[Api] = field(default_factory=list)
    proxies: list[FaultyProxy] = field(default_factory=list)

    def candidate(self, *faults: Fault, clock: float = 0.0) -> Candidate:
        self.proxies.append(self.ways.enter_context(faulty(self.server, *faults)))
        self.machines.append(Machine(clock))
        api = Api(self.proxies[-1].url, threading.Event(), system=self.machines[-1])
        self.apis.append(self.ways.enter_context(api))
        return self.once_more(len(self.machines) - 1)

    def once_more(self, number: int) -> Candidate:
        """A candidate that was started again."""
        rules = LeaderElection(resource_name=self.lease, resource_namespace="default")
        return Candidate(self.apis[number], rules, lambda: self.losses.append(number))

    def pass_time(self, seconds: float) -> None:
        for machine in self.machines:
            machine.time += seconds


@pytest.fixture
def election(cluster: Cluster) -> Iterator[Election]:
    name = f"poller-{uuid4().hex[:8]}"
    with ExitStack() as ways:
        yield Election(cluster.proxy, name, ways)
    cluster.api.delete(f"{LEASES}/{name}")


@pytest.fixture
def lease(cluster: Cluster, election: Election) -> Callable[[], Any]:
    """The lease as the server has it."""
    return lambda: cluster.api.get(f"{LEASES}/{election.lease}").json()


def test_a_lease_is_taken_over_after_its_duration_without_a_renewal(
    election: Election, lease: Callable[[], Any]
) -> None:
    first, second = election.candidate(), election.candidate(clock=1e6)
    first.try_once()
    second.try_once()
    election.pass_time(9)
    first.try_once()
    election.pass_time(5)
    second.try_once()  # sees now that it was renewed
    election.pass_time(14.9)
    second.try_once()
    assert not second.leads()
    assert lease()["spec"]["leaseTransitions"] == 0
    election.pass_time(0.1)
    second.try_once()
    assert second.leads()
    assert not first.leads()
    assert lease()["spec"]["leaseTransitions"] == 1


def test_one_that_stands_by_tries_when_the_lease_expires(election: Election) -> None:
    first, second = election.candidate(), election.candidate(clock=1e6)
    first.try_once()
    second.try_once()
    assert 1.6 <= second.pause() <= 2
    election.pass_time(14.5)
    second.try_once()
    assert 0.5 <= second.pause() <= 0.9
    election.pass_time(second.pause())
    second.try_once()
    assert second.leads()
    assert second.pause() == 2


def test_the_renew_deadline_counts_from_the_start_of_the_last_renewal(election: Election) -> None:
    def slowly(exchange: Exchange) -> Answer:
        election.pass_time(4)
        return exchange.forward()

    leader = election.candidate(Fault("PUT", "", slowly))
    leader.try_once()
    election.pass_time(5)
    leader.try_once()
    election.pass_time(5.9)
    assert leader.leads()
    assert not election.losses
    election.pass_time(0.1)
    assert not leader.leads()
    assert election.losses == [0]
    leader.try_once()
    assert not leader.leads()
    assert election.losses == [0]


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_answer_that_comes_too_late_makes_no_leader(election: Election, method: str) -> None:
    def late(exchange: Exchange) -> Answer:
        answer = exchange.forward()
        election.pass_time(10)
        return answer

    candidate = election.candidate(Fault(method, "", late))
    candidate.try_once()
    if method == "PUT":
        election.pass_time(2)
        candidate.try_once()
    assert not candidate.leads()
    assert election.losses == ([0] if method == "PUT" else [])
    candidate.try_once()
    assert candidate.leads() == (method == "POST")  # who led once is lost for good


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_lost_answer_is_looked_up(election: Election, lease: Callable[[], Any], method: str) -> None:
    candidate = election.candidate(Fault(method, "", lose_answer()))
    if method == "POST":
        with pytest.raises(ApiError):
            candidate.try_once()
        assert not candidate.leads()
    candidate.try_once()
    assert candidate.leads()
    acquired = lease()["spec"]["acquireTime"]
    election.pass_time(8)
    candidate.try_once()
    election.pass_time(8)
    assert candidate.leads()
    spec = lease()["spec"]
    assert (spec["leaseTransitions"], spec["acquireTime"]) == (0, acquired)
    assert spec["renewTime"] > acquired


def test_of_two_that_try_at_once_one_leads(election: Election) -> None:
    first, second, third = election.candidate(), election.candidate(), election.candidate()
    for candidate in (first, second, third):
        candidate.try_once()
    election.pass_time(15)

    def race(exchange: Exchange) -> Answer:
        second.try_once()
        return exchange.forward()

    election.proxies[2].add(Fault("PUT", "", race))
    with pytest.raises(ConflictError):
        third.try_once()
    assert [each.leads() for each in (first, second, third)] == [False, True, False]


def test_what_others_write_on_a_lease_stays(
    cluster: Cluster, election: Election, lease: Callable[[], Any]
) -> None:
    leader = election.candidate()
    leader.try_once()
    assert lease()["metadata"]["annotations"] == {"poller/version": full_version()}
    noted = {"labels": {"team": "a"}, "annotations": {"b": "c"}, "finalizers": ["example.com/d"]}
    cluster.patch(f"{LEASES}/{election.lease}", {"metadata": noted})
    before = lease()["spec"]["renewTime"]
    leader.try_once()
    assert leader.leads()
    assert lease()["spec"]["renewTime"] > before
    noted["annotations"] = {"b": "c", "poller/version": full_version()}
    assert noted.items() <= lease()["metadata"].items()
    cluster.patch(f"{LEASES}/{election.lease}", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("holder", ["someone-else", ""])
def test_a_lease_that_another_got_hold_of_is_lost(cluster: Cluster, election: Election, holder: str) -> None:
    leader = election.candidate()
    leader.try_once()
    cluster.patch(f"{LEASES}/{election.lease}", {"spec": {"holderIdentity": holder}})
    leader.try_once()
    assert not leader.leads()
    assert election.losses == [0]


def test_a_lease_that_was_deleted_is_made_again(
    cluster: Cluster, election: Election, lease: Callable[[], Any]
) -> None:
    leader = election.candidate()
    leader.try_once()
    cluster.api.delete(f"{LEASES}/{election.lease}")
    leader.try_once()
    assert leader.leads()
    assert lease()["spec"]["holderIdentity"] == leader.identity


def test_a_lease_without_a_duration_is_free(cluster: Cluster, election: Election) -> None:
    candidate = election.candidate()
    cluster.post(LEASES, {"metadata": {"name": election.lease}, "spec": {"holderIdentity": "someone"}})
    candidate.try_once()
    assert candidate.leads()


@dataclass(frozen=True)
class Turn:
    """One of two candidates tries after some seconds, and this befalls its first write."""

    who: int
    after: int
    fate: str
    seconds: int


TURNS = st.builds(
    Turn,
    st.integers(0, 1),
    st.sampled_from([0, 0, 4, 9]),
    st.sampled_from(["goes well", "goes well", "takes long", "is overtaken", "loses its answer"]),
    st.sampled_from([4, 9]),
)


@pytest.mark.parametrize("servers", ["embedded"], indirect=True)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(turns=st.lists(TURNS, min_size=20, max_size=25))
def test_there_are_never_two_leaders(cluster: Cluster, turns: list[Turn]) -> None:
    with ExitStack() as ways:
        election = Election(cluster.proxy, f"poller-{uuid4().hex[:8]}", ways)
        ways.callback(cluster.api.delete, f"{LEASES}/{election.lease}")
        due: list[Turn] = []

        def befall(exchange: Exchange) -> Answer | None:
            turn = due.pop() if due else None
            if turn and turn.fate == "takes long":
                election.pass_time(turn.seconds)
            if turn and turn.fate == "is overtaken":
                attempt(1 - turn.who)
            answer = exchange.forward()
            return None if turn and turn.fate == "loses its answer" else answer

        def attempt(who: int) -> None:
            with suppress(ApiError):
                candidates[who].try_once()

        writes = Fault("PUT", "", befall, ALWAYS), Fault("POST", "", befall, ALWAYS)
        candidates = [election.candidate(*writes, clock=clock) for clock in (0.0, 1e6)]
        for turn in turns:
            election.pass_time(turn.after)
            due[:] = [turn]
            attempt(turn.who)
            assert sum(each.leads() for each in candidates) <= 1, candidates
            for who in election.losses:  # it ends, and is started again
                candidates[who] = election.once_more(who)
            election.losses.clear()
