"""--write-config-to: what is written says what kube-scheduler's says, and is read again as the same."""

import json
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from all_cases import check_each
from configs import load_config
from service.test_options import poller
from test_scheduler_config import GOOD, asked, by_name, canonical, named, read

from lib.kube.election import LeaderElection
from lib.scheduling.framework.interface import EXTENSION_POINTS
from lib.scheduling.handle import Handle
from lib.scheduling.pod_life import BackoffSettings
from lib.service.config.written import WITHHELD, as_used
from lib.service.served_profiles import Asked, profiles_for

NOT_ARGUMENTS = "DynamicResources"
"""poller has no use for its arguments, and keeps them as they are given."""


@pytest.mark.parametrize("part", range(4))
def test_what_is_written_is_what_kube_scheduler_writes_and_is_read_again(tmp_path: Path, part: int) -> None:
    check_each(named(GOOD[part::4]), partial(writes_alike, tmp_path))


def writes_alike(folder: Path, case: dict[str, Any]) -> None:
    config, profiles = read(folder, case)
    answer = case["answer"]
    used = as_used(config, profiles, BackoffSettings(), LeaderElection(), secrets=True)
    for ours, theirs in zip(used["profiles"], answer["profiles"], strict=True):
        for each in ours["pluginConfig"]:
            name = each["name"]
            if name != NOT_ARGUMENTS:
                expected = canonical(name, theirs["args"][name])
                if config.extenders:  # kube-scheduler adds the resources that they manage
                    expected.pop("ignoredResources", None)
                assert comparable(each["args"]) == comparable(expected)
    file = folder / "written.yaml"
    file.write_text(yaml.dump(used, Dumper=yaml.CSafeDumper))
    again = profiles_for(load_config(file), Asked(), Handle())
    for profile, other in zip(profiles, again, strict=True):
        assert profile.scheduler_name == other.scheduler_name
        assert profile.percentage_of_nodes_to_score == other.percentage_of_nodes_to_score
        for point in EXTENSION_POINTS:
            if point != "preScore":  # plugins that don't score needn't prepare it
                assert asked(profile, point) == asked(other, point)
        scoring = asked(profile, "score")
        assert [profile.weights[name] for name in scoring] == [other.weights[name] for name in scoring]


def comparable(args: dict[str, Any]) -> dict[str, Any]:
    """Arguments without what makes no difference: their head, the order of names, terms without weight."""
    told = {key: deepcopy(each) for key, each in args.items() if key not in ("apiVersion", "kind")}
    for lists in (told, told.get("scoringStrategy", {})):
        if isinstance(lists.get("resources"), list):
            lists["resources"] = by_name(lists["resources"])
    told |= {key: sorted(names) for key, names in told.items() if key.startswith("ignoredResource")}
    preferred = told.get("addedAffinity", {}).get("preferredDuringSchedulingIgnoredDuringExecution", [])
    preferred[:] = [each for each in preferred if each.get("weight")]
    return told


def test_poller_writes_what_it_uses_for_the_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "used.yaml"
    options = ("--leader-elect", "--pod-initial-backoff=3", "--no-preemption")
    done = poller("--write-config-to", str(file), *options)
    assert done.stdout == f"the configuration is in {file}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    said = yaml.safe_load(file.read_text())
    assert said["leaderElection"] == {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceLock": "leases",
        "resourceName": "poller",
        "resourceNamespace": "kube-system",
    }
    assert (said["podInitialBackoffSeconds"], said["podMaxBackoffSeconds"]) == (3, 10)
    assert [each["schedulerName"] for each in said["profiles"]] == ["my-scheduler", "random-scheduler"]
    assert "DefaultPreemption" not in file.read_text()
    usual = poller("--check-config", *options).stdout
    assert poller("--check-config", "--config", str(file)).stdout == usual


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    done = poller("--write-config-to", str(tmp_path / "no" / "used.yaml"))
    assert done.returncode == 2
    assert "used.yaml: No such file or directory" in " ".join(done.stderr.replace("│", "").split())


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://me:secret@127.0.0.1:1/x", f"http://{WITHHELD}@127.0.0.1:1/x"),
        ("http://me:secret@127.0.0.1:99999/x", WITHHELD),  # nobody knows which part is the password
        ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x"),
    ],
)
def test_passwords_of_extenders_are_not_shown(tmp_path: Path, url: str, said: str) -> None:
    file = tmp_path / "scheduler.yaml"
    extender = {"urlPrefix": url, "filterVerb": "filter"}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(json.dumps({**head, "extenders": [extender]}))
    config = load_config(file)
    profiles = profiles_for(config, Asked(), Handle())
    shown, whole = (
        as_used(config, profiles, BackoffSettings(), None, secrets=secrets)["extenders"][0]["urlPrefix"]
        for secrets in (False, True)
    )
    assert shown == said
    assert whole == extender["urlPrefix"]
