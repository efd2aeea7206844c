"""The verb `replay`: what would have become of a trace's pods, with each of several configurations?"""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from lib.kube.objects import Node
from lib.kube.source import MAIN_SCHEDULER
from lib.kube.system import MACHINE
from lib.questions.asking import complain
from lib.questions.durations import seconds_in
from lib.questions.errors import CommandLineError
from lib.questions.printing import Printer, print_json, run_through
from lib.questions.replay.figures import Figures
from lib.questions.replay.reading import NO_NODES, SIZES, generated, read_snapshot, read_trace
from lib.questions.replay.show import check_plot, draw, placements_into, print_csv, show_replays
from lib.questions.replay.trace import Trace, inflated, kinds_of
from lib.questions.replay.world import Replaying, profile_of
from lib.questions.snapshot import Snapshot
from lib.questions.verdict import Verdict, verdict
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.service.command_line import option
from lib.service.config.file import read_config
from lib.service.policies import load_policies
from lib.service.served_profiles import Asked, profiles_for

TRACE, RUN, OUTPUT = "Pods and nodes", "How they are placed", "Output"
"""The parts of --help."""


class ReplayFormat(StrEnum):
    """How the figures are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True)
class ReplayOptions:
    """The options, as given."""

    context: typer.Context
    trace: Annotated[
        Path | None,
        typer.Argument(
            metavar="TRACE",
            show_default=False,
            help="The pods: a CSV in the form of Alibaba's openb, manifests (YAML), or what `record` wrote; "
            "or else --arrivals.",
        ),
    ] = None
    nodes: Annotated[
        Path | None,
        option(
            TRACE,
            "The nodes: a CSV as in openb, manifests, or what `save` wrote. A recording has its own.",
            metavar="FILE",
        ),
    ] = None
    arrivals: Annotated[
        str, option(TRACE, "In place of TRACE: how often a pod arrives, at random.", metavar="poisson:20/min")
    ] = ""
    mix: Annotated[
        str, option(TRACE, f"With --arrivals: which pods, with weights. Sizes: {', '.join(SIZES)}.")
    ] = "small=70,large=30"
    during: Annotated[
        str, option(TRACE, "With --arrivals: for how long pods arrive.", "--for", metavar="DURATION")
    ] = "1h"
    runs_for: Annotated[
        str, option(TRACE, "With --arrivals: how long a pod runs, in the mean.", metavar="DURATION")
    ] = "10m"
    config: Annotated[
        list[Path] | None,
        option(
            RUN, "A KubeSchedulerConfiguration to replay by. Can be given several times.", metavar="FILE.yaml"
        ),
    ] = None
    policy: Annotated[
        list[Path] | None,
        option(
            RUN,
            "Replay with the default filters, and with this policy alone for scores. "
            "Can be given several times.",
            metavar="FILE.py",
        ),
    ] = None
    seed: Annotated[int, option(RUN, "The seed of all random choices.", metavar="NUMBER")] = 0
    inflate: Annotated[
        float | None,
        option(
            TRACE,
            "Shuffle the pods, add some drawn at random until they ask for so many times what there is, "
            "and let none end.",
            min=0.0,
            metavar="FACTOR",
        ),
    ] = None
    plot: Annotated[
        Path | None,
        option(
            OUTPUT,
            "Draw allocation, pending pods and used nodes over time. Needs matplotlib.",
            metavar="FILE.svg|png|html",
        ),
    ] = None
    placements: Annotated[
        Path | None,
        option(OUTPUT, "Write into this CSV which node each pod got, and when.", metavar="FILE.csv"),
    ] = None
    output: Annotated[ReplayFormat, option(OUTPUT, "json and csv are for programs.", "--output", "-o")] = (
        ReplayFormat.TABLE
    )


def ask_replay(options: ReplayOptions) -> Verdict:
    """What would have become of these pods, in virtual time: who gets a node, how long they wait.

    The cache, the queue, the plugins and preemption are those of the loop. Without --config and --policy, the
    default plugins decide.

    Exit 0: all pods got a node. 3: some didn't.
    """
    if options.plot:
        check_plot(options.plot)
    snapshot, trace = _read(options)
    replays = _replayed(options, snapshot, trace)
    answer = verdict(all(replay.complete and not (replay.pending or replay.gave_up) for replay in replays))
    if options.plot:
        draw(replays, options.plot)
    if options.output == ReplayFormat.JSON:
        configs = [replay.as_json() for replay in replays]
        print_json({"question": "replay", "answer": answer.word, "configs": configs})
    elif options.output == ReplayFormat.CSV:
        print_csv(replays)
    else:
        show_replays(replays, Printer())
    return answer


def _read(options: ReplayOptions) -> tuple[Snapshot, Trace]:
    """The cluster, and what happens to it."""
    if (options.trace is None) == (options.arrivals == ""):
        raise CommandLineError("replay needs a trace, or --arrivals: one of the two")
    snapshot = read_snapshot(options.nodes) if options.nodes else None
    if options.trace:
        snapshot, trace = read_trace(options.trace, snapshot)
        if trace.note:
            complain(options.context.command_path, trace.note)
    elif snapshot:
        length, mean_run = seconds_in(options.during, "--for"), seconds_in(options.runs_for, "--runs-for")
        trace = Trace(generated(options.arrivals, options.mix, length, mean_run, options.seed))
        if not len(trace.arrivals):
            raise CommandLineError(
                f"--arrivals {options.arrivals}: no pod arrives within {options.during}; give --for more time"
            )
    else:
        raise CommandLineError(NO_NODES)
    if options.inflate is not None:
        random = MACHINE.random(options.seed)
        trace = Trace(inflated(trace.arrivals, snapshot.of(Node), options.inflate, random))
    return snapshot, trace


def _replayed(options: ReplayOptions, snapshot: Snapshot, trace: Trace) -> list[Figures]:
    """The figures of each configuration and policy, up to one that is broken off."""
    config, policy = options.config or [], options.policy or []
    files: list[Path | None] = [*config, *policy]
    kinds, replays = kinds_of(trace.arrivals), list[Figures]()
    with placements_into(options.placements) as note_placed:
        for file in files or [None]:
            profiles = _profiles(file, MACHINE.random(options.seed), is_policy=file in policy)
            name = file.name if file else "default"
            replaying = Replaying(name, profiles, snapshot, trace, kinds, options.seed)
            replaying.answer.note_placed = partial(note_placed, name)
            with suppress(KeyboardInterrupt):
                run_through(replaying, f"replaying with {name}")
            replays.append(replaying.answer)
            if not replaying.answer.complete:
                complain(options.context.command_path, "stopped; what there is so far:")
                break
    return replays


def _profiles(file: Path | None, random: Random, *, is_policy: bool) -> list[Profile]:
    """The profiles of a configuration; a policy's: the default plugins, of which only the filters count."""
    if file and is_policy:
        (loaded,) = load_policies([file])
        return [profile_of(loaded.plugins, loaded.weights)]
    read, problems = read_config(file) if file else (None, [])
    asked = Asked(None if read and read.profiles else MAIN_SCHEDULER)
    return profiles_for(read, asked, Handle(random), problems, file)
