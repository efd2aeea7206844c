"""What reads input, with inputs that nobody meant: scripts/fuzz does the same for longer."""

import time
from collections.abc import Iterator

import pytest

from scripts.fuzzing import engine
from scripts.fuzzing.engine import Fuzzer, ending_hangs
from scripts.fuzzing.targets import FILE, TARGETS, FuzzTarget


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    with ending_hangs():
        yield
    FILE.unlink(missing_ok=True)


@pytest.mark.parametrize("name", TARGETS)
def test_bad_input_ends_in_an_expected_error(name: str) -> None:
    fuzzer = Fuzzer(TARGETS[name], seed=1)
    for _ in range(20 if name == "clusters" else 150):
        fuzzer.go_on()
    assert not fuzzer.found, next(iter(fuzzer.found.values())).trace


@pytest.mark.parametrize(("name", "data"), [("extenders", b'{"error":' * 100_000)])
def test_what_was_found_ends_in_an_expected_error_now(name: str, data: bytes) -> None:
    TARGETS[name].run(data)


def test_an_unexpected_error_is_found_once_for_each_place() -> None:
    def read(data: bytes) -> int:
        return 1 // len(data.removeprefix(b"["))

    fuzzer = Fuzzer(FuzzTarget(read, [b"["]), seed=1)
    for _ in range(200):
        fuzzer.go_on()
    (found,) = fuzzer.found.values()
    assert found.where.endswith("ZeroDivisionError")
    assert found.data in (b"", b"[")


def test_an_input_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: bytes) -> None:
        while True:
            time.sleep(0.001)

    monkeypatch.setattr(engine, "LONGEST", 0.05)
    fuzzer = Fuzzer(FuzzTarget(read, [b"{}"]), seed=1)
    fuzzer.go_on()
    (found,) = fuzzer.found.values()
    assert found.where.endswith("HangError")


def test_inputs_that_reach_new_lines_are_kept() -> None:
    fuzzer = Fuzzer(TARGETS["quantities"], seed=1)
    before = len(fuzzer.kept)
    for _ in range(400):
        fuzzer.go_on()
    assert before < len(fuzzer.kept) < before + 20
