"""The configuration file: what poller reads from it, and the errors for a wrong one."""

import base64
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from configs import load_config

from lib.service.config import ConfigError
from lib.service.config.file import KubeSchedulerConfiguration, LeaderElectionConfiguration
from lib.service.config.strict import Duration
from lib.service.options import run_with_options

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
URL = {"urlPrefix": "http://127.0.0.1:1"}
GPU = {"managedResources": [{"name": "example.com/gpu"}]}


def load(folder: Path, **rest: Any) -> KubeSchedulerConfiguration:
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump({**HEAD, **rest}))
    return load_config(file)


@pytest.mark.parametrize(
    ("written", "seconds"), [(None, 5), ("0s", 5), ("5s", 5), ("100ms", 0.1), ("1m30s", 90), ("1.5h", 5400)]
)
def test_durations_are_written_as_in_go(tmp_path: Path, written: str | None, seconds: float) -> None:
    (extender,) = load(tmp_path, extenders=[URL | ({"httpTimeout": written} if written else {})]).extenders
    assert extender.http_timeout == seconds


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"kind": "Pod"}, "kind: is 'Pod', not KubeSchedulerConfiguration"),
        ({"apiVersion": "v1"}, "apiVersion: is 'v1', not kubescheduler.config.k8s.io/v1"),
        ({"profile": []}, "profile: unknown field"),
        ({"profiles": {}}, "profiles: expected a list, got a mapping of fields"),
        (
            {"profiles": [{"percentageOfNodesToScore": "9"}]},
            "NodesToScore: expected a whole number, got text",
        ),
        ({"profiles": [{"plugins": {"scores": {}}}]}, "profiles[0].plugins.scores: unknown field"),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"weight": 1}]}}}]},
            "profiles[0].plugins.score.enabled[0].name: is missing",
        ),
        ({"extenders": [{"urlPrefix": 1}]}, "extenders[0].urlPrefix: expected text, got a whole number"),
        ({"clientConnection": {"burst": -1}}, "clientConnection: burst is -1; it can't be negative"),
        ({"podMaxBackoffSeconds": 10**400}, "podMaxBackoffSeconds: "),
        (
            {"leaderElection": {"resourceName": "My/Lease"}},
            "leaderElection: 'My/Lease' is not a valid object name",
        ),
        (
            {"leaderElection": {"retryPeriod": "9s"}},
            "leaderElection: the renew deadline (10 s) must be longer",
        ),
        ({"extenders": [URL, URL | {"verb": "x"}]}, "extenders[1].verb: unknown field"),
        ({"extenders": [URL | {"httpTimeout": 5}]}, "httpTimeout: 5 is not a duration, such as 5s"),
        ({"extenders": [URL | {"httpTimeout": "5"}]}, "extenders[0].httpTimeout: "),
        ({"extenders": [URL | {"httpTimeout": "-5s"}]}, "extenders[0]: httpTimeout must be more than -5 s"),
        ({"extenders": [URL | {"prioritizeVerb": "x"}]}, "extenders[0]: weight is 0: an extender "),
        ({"extenders": [URL | {"bindVerb": "x"}] * 2}, "only one may have a bindVerb"),
        ({"extenders": [URL | GPU] * 2}, "example.com/gpu can't be managed twice"),
        ({"extenders": [URL | {"managedResources": [{"name": "cpu"}]}]}, "managedResources[0].name: "),
        (
            {"extenders": [URL | {"managedResources": [{"name": "requests.example.com/gpu"}]}]},
            "'requests.example.com/gpu' is not the name of an extended resource",
        ),
        ({"extenders": [URL | {"tlsConfig": {"caFile": "/nowhere"}}]}, "tlsConfig can't be used: "),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, rest: Any, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, **rest)
    assert str(error.value).startswith(f"{tmp_path}/scheduler.yaml: ")
    assert words in str(error.value)


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"\xff", b"- 1", b"? [a]\n: b", b"1: 2", b"a: &a [*a]", b"[" * 5000, b"a: 2020-02-30"],
    ids=lambda text: str(text[:20]),
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=r"scheduler\.yaml: "):
        load_config(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        load_config(tmp_path / "nowhere.yaml")


def test_a_field_that_is_given_twice_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: []\nprofiles: []\n"
    )
    with pytest.raises(ConfigError, match=r"scheduler\.yaml: line 4, column 1: profiles is given twice"):
        load_config(file)


def test_what_would_change_no_decision_is_ignored(tmp_path: Path) -> None:
    connection = {
        "kubeconfig": "/etc/kubernetes/scheduler.conf",
        "contentType": "application/vnd.kubernetes.protobuf",
        "qps": 50.0,
        "burst": 100,
    }
    config = load(
        tmp_path,
        parallelism=16,
        clientConnection=connection,
        enableProfiling=True,
        enableContentionProfiling=True,
        delayCacheUntilActive=True,
        profiles=[
            {
                "plugins": {"score": {"disabled": [{"name": "NodeResourceFit"}, {"name": "*"}]}},
                "pluginConfig": [{"name": "NodeResourcesFit"}, {"name": "Coscheduling", "args": 1}],
            }
        ],
    )
    assert list(config.ignored(["NodeResourcesFit"])) == [
        "parallelism: poller looks at nodes in one thread",
        "clientConnection.kubeconfig: poller reaches the API server through kubectl proxy, see --proxy",
        "clientConnection.contentType: poller sends and accepts application/json",
        "clientConnection.qps: poller doesn't limit its requests",
        "clientConnection.burst: poller doesn't limit its requests",
        "enableProfiling: poller serves no profiling data; see scripts/profile",
        "enableContentionProfiling: poller serves no profiling data; see scripts/profile",
        "delayCacheUntilActive: a poller that doesn't lead keeps its cache up to date",
        "profiles[0].plugins.score.disabled[0]: there is no plugin 'NodeResourceFit'; did you mean"
        " NodeResourcesFit?",
        "profiles[0].pluginConfig[1]: there is no plugin 'Coscheduling', nor a --plugin of that name",
    ]
    with pytest.raises(ConfigError, match="parallelism: 0 is not more than 0"):
        load(tmp_path, parallelism=0)


def test_what_asks_for_nothing_is_not_mentioned(tmp_path: Path) -> None:
    nothing = {"kubeconfig": "", "acceptContentTypes": "", "contentType": "", "qps": 0, "burst": 0}
    config = load(
        tmp_path,
        clientConnection=nothing,
        enableProfiling=False,
        enableContentionProfiling=False,
        delayCacheUntilActive=False,
    )
    assert not list(config.ignored(["NodeResourcesFit"]))


MISTAKES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelisme: 4
parallelism: 4
parallelism: 8
percentageOfNodesToScore: 101
podInitialBackoffSeconds: soon
leaderElection:
  leaseDuration: 5
extenders:
- urlPrefix: http://127.0.0.1:1
  prioritizeVerb: score
profiles:
- schedulerName: my-scheduler
  plugins:
    score:
      enabled:
      - weight: 2
      - name: NodeResourceFit
    filters: {}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: Most
        resources:
        - name: cpu
          weight: 101
        - weight: 1
  - name: InterPodAffinity
    args:
      hardPodAffinityWeight: 101
- schedulerName: my-scheduler
  percentageOfNodesToScore: "50"
"""


def test_all_mistakes_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(MISTAKES)
    monkeypatch.setattr("sys.argv", ["poller.py", "--check-config", "--config", str(file)])
    with pytest.raises(SystemExit):
        run_with_options(lambda _: 0)
    fit = "profiles[0].pluginConfig[0].args.scoringStrategy"
    said = capsys.readouterr().err.partition("Invalid value for --config: ")[2]
    assert said.replace(f"{file}: ", "- ").splitlines() == [
        "- line 6, column 1: parallelism is given twice",
        "- parallelisme: unknown field; did you mean parallelism?",
        "- leaderElection.leaseDuration: 5 is not a duration, such as 5s",
        "- podInitialBackoffSeconds: expected a whole number, got text",
        "- profiles[0].plugins.filters: unknown field; did you mean filter?",
        "- profiles[0].plugins.score.enabled[0].name: is missing",
        "- profiles[1].percentageOfNodesToScore: expected a whole number, got text",
        "- extenders[0]: weight is 0: an extender with a prioritizeVerb needs a positive weight",
        "- percentageOfNodesToScore: 101 is not between 0 and 100",
        f"- {fit}.resources[1].name: is missing",
        f"- {fit}.type: 'Most' is not one of LeastAllocated, MostAllocated, RequestedToCapacityRatio",
        f"- {fit}.resources[0].weight: 101 is not between 1 and 100",
        "- profiles[0].pluginConfig[1].args.hardPodAffinityWeight: 101 is not between 0 and 100",
        "- profiles[0].plugins.score.enabled[1].name: there is no plugin 'NodeResourceFit'; did you mean"
        " NodeResourcesFit?",
        "- profiles[1].schedulerName: my-scheduler is the name of profiles[0], too",
    ]


def test_what_is_not_said_of_leader_election_is_left_to_the_options(tmp_path: Path) -> None:
    said = load(tmp_path, leaderElection={"leaseDuration": "30s", "resourceName": ""}).leader_election
    assert said == LeaderElectionConfiguration(lease_duration=Duration(30))
    assert load(tmp_path).leader_election == LeaderElectionConfiguration()


def test_certificates_may_stand_in_the_file(tmp_path: Path) -> None:
    ca = trustme.CA()
    ours = ca.issue_cert("poller")
    chain = b"".join(pem.bytes() for pem in ours.cert_chain_pems)
    data = {"caData": ca.cert_pem.bytes(), "certData": chain, "keyData": ours.private_key_pem.bytes()}
    tls = {name: base64.b64encode(pem).decode() for name, pem in data.items()}
    (extender,) = load(tmp_path, extenders=[URL | {"tlsConfig": tls}]).extenders
    (trusted,) = extender.ssl_context().get_ca_certs()
    assert trusted["serialNumber"]
