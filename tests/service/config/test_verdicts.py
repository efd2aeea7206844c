"""poller takes the configuration files that kube-scheduler takes, which takes those that poller writes."""

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from all_cases import ALL_CASES, PART
from configs import load_config
from test_scheduler_config import GOOD, read

from lib.scheduling.handle import Handle
from lib.scheduling.pod_life import BackoffSettings
from lib.service.config import ConfigError
from lib.service.config.file import KubeSchedulerConfiguration
from lib.service.config.written import as_used, write
from lib.service.served_profiles import Asked, profiles_for

LINES = gzip.decompress((Path(__file__).parents[2] / "data" / "config-verdicts-1.36.jsonl.gz").read_bytes())
VERDICTS: list[dict[str, Any]] = [json.loads(line) for line in LINES.splitlines()]

STRICTER = {
    "must be longer than 1.2 times": "kube-scheduler ends when the election begins",
    "is not a valid object name": "the API server refuses the lease",
    "httpTimeout must be more than": "each call would be over before it begins",
    "name: is missing": "kube-scheduler ignores what has no name",
    "No such file or directory": "kube-scheduler reads a certificate only if it has a key, too",
}
"""What poller refuses, and kube-scheduler not yet when it reads the file, and why."""


def problem_of(folder: Path, config: str) -> str:
    file = folder / "scheduler.yaml"
    file.write_text(config)
    try:
        loaded = load_config(file)
        profiles_for(loaded, Asked() if loaded.profiles else Asked("default-scheduler"), Handle())
    except ConfigError as error:
        return str(error)
    return ""


def test_poller_takes_what_kube_scheduler_takes(tmp_path: Path) -> None:
    differ, on_purpose = [], set()
    for case in VERDICTS[PART]:
        problem = problem_of(tmp_path, case["config"])
        words = {words for words in STRICTER if words in problem}
        on_purpose |= words
        if bool(problem) != bool(case["error"]) and not words:
            differ.append((case["config"], case["error"], problem))
    assert not differ
    assert on_purpose == {*STRICTER} or not ALL_CASES


def kube_scheduler() -> str | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin")
    return shutil.which("kube-scheduler", path=assets)


def all_in_one(folder: Path) -> dict[str, Any]:
    """The profiles of all good files that have no extenders, as poller writes them, in one file."""
    written: list[dict[str, Any]] = []
    for case in GOOD:
        config, profiles = read(folder, case)
        if not config.extenders:
            written += as_used(config, profiles, BackoffSettings(), None)["profiles"]
    names = [{"schedulerName": f"s{i}"} for i in range(len(written))]
    base = as_used(KubeSchedulerConfiguration(api_version="", kind=""), [], BackoffSettings(), None)
    return {**base, "profiles": [profile | name for profile, name in zip(written, names, strict=True)]}


def test_kube_scheduler_takes_what_poller_writes(tmp_path: Path) -> None:
    command = kube_scheduler()
    if not command:
        pytest.skip("there is no kube-scheduler in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin")
    file, out = tmp_path / "written.yaml", tmp_path / "out.yaml"
    write(all_in_one(tmp_path), file)
    options = [
        "--secure-port=0",
        "--master=http://127.0.0.1:1",
        f"--config={file}",
        f"--write-config-to={out}",
    ]
    done = subprocess.run([command, *options], capture_output=True, text=True, timeout=60)
    assert out.exists(), done.stderr
    assert len(yaml.load(out.read_text(), yaml.CSafeLoader)["profiles"]) > 90


def test_a_file_that_only_poller_can_use_says_so(tmp_path: Path) -> None:
    file = tmp_path / "written.yaml"
    profiles = profiles_for(KubeSchedulerConfiguration(api_version="", kind=""), Asked(), Handle())
    config = KubeSchedulerConfiguration(api_version="", kind="")
    write(as_used(config, profiles, BackoffSettings(), None), file)
    assert file.read_text().startswith("# kube-scheduler can't use this file: it has no plugin Random.\n")
