"""`scripts/fuzz`: what reads input is given inputs that nobody meant. Unexpected errors are printed."""

import argparse
import sys
import time

from lib.startup import DEEPEST_CALLS

from .engine import Fuzzer, ending_hangs
from .targets import FILE, TARGETS, as_text

TURN = 0.1
"""Seconds for a target before the next target's turn."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1, metavar="M", help="in all (default %(default)s)")
    parser.add_argument("--inputs", type=int, metavar="N", help="end after so many in all")
    parser.add_argument("--target", choices=TARGETS, action="append", help="this one alone; may be repeated")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="S", help="of the inputs (default %(default)s)"
    )
    return parser.parse_args()


def main(chosen: argparse.Namespace) -> int:
    sys.setrecursionlimit(DEEPEST_CALLS)  # as poller does
    fuzzers = {name: Fuzzer(TARGETS[name], chosen.seed) for name in chosen.target or TARGETS}
    began = time.monotonic()
    until, said = began + 60 * chosen.minutes, began
    try:
        while time.monotonic() < until and _count(fuzzers) < (chosen.inputs or sys.maxsize):
            for name, fuzzer in fuzzers.items():
                before = len(fuzzer.found)
                ends = time.monotonic() + TURN
                with ending_hangs():
                    while time.monotonic() < ends:
                        fuzzer.go_on()
                for found in [*fuzzer.found.values()][before:]:
                    print(f"{name}: {as_text(found.data)}\n{found.trace}", flush=True)
            if sys.stderr.isatty() and time.monotonic() > said + 5:
                said = time.monotonic()
                print(f"{_count(fuzzers):,} inputs", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    finally:
        FILE.unlink(missing_ok=True)
    for name, fuzzer in fuzzers.items():
        print(f"{name}: {fuzzer.inputs:,} inputs, {len(fuzzer.kept):,} kept, {len(fuzzer.found)} errors")
    print(f"{_count(fuzzers):,} inputs in {time.monotonic() - began:.0f} s")
    return 1 if any(each.found for each in fuzzers.values()) else 0


def _count(fuzzers: dict[str, Fuzzer]) -> int:
    return sum(each.inputs for each in fuzzers.values())


if __name__ == "__main__":
    sys.exit(main(options()))
