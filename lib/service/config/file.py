"""The configuration file as a whole.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/; validation:
pkg/scheduler/apis/config/validation/validation.go and component-base/config/validation/validation.go
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from msgspec import field
from msgspec.structs import fields

from lib.kube.election import LeaderElection
from lib.scheduling.pod_life import BackoffSettings
from lib.service.config import ConfigError
from lib.service.config.extenders import ExtenderConfig, problems_of
from lib.service.config.fields import read, without_nulls, without_repetitions, wrong_head
from lib.service.config.profiles import KubeSchedulerProfile
from lib.service.config.strict import VERSION, Duration, Strict, not_between

KIND = "KubeSchedulerConfiguration"

LONGEST_BACKOFF = 2**31 - 1
"""Seconds: some 68 years."""


class LeaderElectionConfiguration(Strict):
    """Leader election: whether, and with which settings; None where the file doesn't say."""

    leader_elect: bool | None = None
    lease_duration: Duration | None = None
    renew_deadline: Duration | None = None
    retry_period: Duration | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None

    def __post_init__(self) -> None:
        """Zero and empty count as not given: kube-scheduler uses its default then."""
        for name in self.__struct_fields__:
            if name != "leader_elect":
                setattr(self, name, getattr(self, name) or None)

    def settings(self) -> dict[str, Any]:
        """The given settings of leader election."""
        others = ("leader_elect", "resource_lock")
        said = {name: getattr(self, name) for name in self.__struct_fields__ if name not in others}
        return {name: value for name, value in said.items() if value is not None}

    def problems(self, path: str) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`; none if leader election is off."""
        if self.leader_elect is False:
            return
        values = {field.encode_name: getattr(self, field.name) for field in fields(self)}
        negative = [
            f"{path}.{name}: must be more than {value:g} s"
            for name, value in values.items()
            if isinstance(value, Duration) and value < 0
        ]
        yield from negative
        if not negative:
            try:
                LeaderElection(**self.settings())
            except ValueError as error:
                yield f"{path}: {error}"
        if self.resource_lock not in (None, "leases"):
            yield f"{path}.resourceLock: is {self.resource_lock!r}; only leases are supported"


class ClientConnectionConfiguration(Strict):
    """How kube-scheduler connects to the API server; poller uses `kubectl proxy` for that."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: int = 0

    def __post_init__(self) -> None:
        if self.burst < 0:
            raise ValueError(f"burst is {self.burst}; it can't be negative")

    def ignored(self, path: str) -> Iterator[str]:
        """The given fields that poller ignores."""
        if self.kubeconfig:
            yield f"{path}.kubeconfig: poller reaches the API server through kubectl proxy, see --proxy"
        for name, content in (
            ("acceptContentTypes", self.accept_content_types),
            ("contentType", self.content_type),
        ):
            if content not in ("", "application/json"):
                yield f"{path}.{name}: poller sends and accepts application/json"
        for name, limit in (("qps", self.qps), ("burst", self.burst)):
            if limit:
                yield f"{path}.{name}: poller doesn't limit its requests"


class KubeSchedulerConfiguration(Strict):
    """The file. A field that an option can set instead is None if it isn't given."""

    api_version: str
    kind: str
    parallelism: int | None = None
    leader_election: LeaderElectionConfiguration = field(default_factory=LeaderElectionConfiguration)
    client_connection: ClientConnectionConfiguration = field(default_factory=ClientConnectionConfiguration)
    enable_profiling: bool = False
    enable_contention_profiling: bool = False
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False

    def problems(self) -> Iterator[str]:
        """A line for each invalid field: `PATH: why`; plugins are checked later."""
        if self.parallelism is not None and self.parallelism <= 0:
            yield f"parallelism: {self.parallelism} is not more than 0"
        yield from self.leader_election.problems("leaderElection")
        yield from not_between("percentageOfNodesToScore", self.percentage_of_nodes_to_score, 0, 100)
        first, longest = self.pod_initial_backoff_seconds, self.pod_max_backoff_seconds
        for name, seconds in (("podInitialBackoffSeconds", first), ("podMaxBackoffSeconds", longest)):
            yield from not_between(name, 1 if seconds is None else seconds, 1, LONGEST_BACKOFF)
        usual = BackoffSettings.initial_backoff, BackoffSettings.max_backoff
        if (usual[1] if longest is None else longest) < (usual[0] if first is None else first):
            yield (
                "podMaxBackoffSeconds: is less than podInitialBackoffSeconds; "
                f"by default they are {usual[1]:g} and {usual[0]:g}"
            )
        yield from problems_of(self.extenders)

    def ignored(self, plugins: Collection[str]) -> Iterator[str]:
        """The given fields that poller ignores, because they don't change decisions.

        plugins: the names of those that are there.
        """
        if self.parallelism is not None:
            yield "parallelism: poller looks at nodes in one thread"
        yield from self.client_connection.ignored("clientConnection")
        for name, wanted in (
            ("enableProfiling", self.enable_profiling),
            ("enableContentionProfiling", self.enable_contention_profiling),
        ):
            if wanted:
                yield f"{name}: poller serves no profiling data; see scripts/profile"
        if self.delay_cache_until_active:
            yield "delayCacheUntilActive: a poller that doesn't lead keeps its cache up to date"
        for i, profile in enumerate(self.profiles):
            yield from profile.ignored(f"profiles[{i}]", plugins)


def default_config() -> KubeSchedulerConfiguration:
    """The configuration without a file."""
    return KubeSchedulerConfiguration(api_version=VERSION, kind=KIND)


def read_config(file: Path) -> tuple[KubeSchedulerConfiguration, list[str]]:
    """Read a configuration file; returns it, as far as it is valid, with all that is wrong.

    Names of plugins are checked later, when the policies are loaded.
    ConfigError when it doesn't exist, or isn't a KubeSchedulerConfiguration at all.
    """
    from yaml import YAMLError  # here, as few runs need them

    from lib.kube.bounded_files import MAX_YAML, TooMuchError, read_at_most
    from lib.kube.kubernetes_yaml import load_strictly

    try:
        parsed, twice = load_strictly(read_at_most(file, MAX_YAML))
        raw = without_nulls(parsed)
        wrong = [*wrong_head(raw, KIND)] if isinstance(raw, dict) else []
        if not isinstance(raw, dict) or raw.get("kind", KIND) != KIND:
            raise ConfigError(wrong or ["a KubeSchedulerConfiguration is a mapping of fields"])
        config, problems = read(raw, KubeSchedulerConfiguration)
        return config, without_repetitions([*twice, *wrong, *problems, *config.problems()])
    except OSError as error:
        raise ConfigError([error.strerror or str(error)], file) from error
    except (TooMuchError, YAMLError) as error:
        raise ConfigError([str(error)], file) from error
    except ConfigError as error:
        raise ConfigError(error.problems, file) from error
