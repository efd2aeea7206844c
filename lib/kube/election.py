"""The settings of leader election."""

from dataclasses import dataclass

from lib.kube.objects import is_object_name

JITTER = 1.2
"""client-go's factor between the retry period and the renew deadline, at least."""


@dataclass(frozen=True)
class LeaderElection:
    """The settings of leader election, in kube-scheduler's terms. Durations are in seconds.

    ValueError when the durations would let two pollers lead at the same time.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str = "poller"
    resource_namespace: str = "kube-system"

    def __post_init__(self) -> None:
        for name in (self.resource_name, self.resource_namespace):
            if not is_object_name(name):
                raise ValueError(f"{name!r} is not a valid object name")
        lease, renew, retry = self.lease_duration, self.renew_deadline, self.retry_period
        if lease <= renew:
            raise ValueError(
                f"the lease duration ({lease:g} s) must be longer than the renew deadline ({renew:g} s)"
            )
        if renew <= JITTER * retry:
            raise ValueError(
                f"the renew deadline ({renew:g} s) must be longer than {JITTER} times "
                f"the retry period ({retry:g} s)"
            )

    def __str__(self) -> str:
        return f"{self.resource_namespace}/{self.resource_name}"
