"""The verb `replay`: what would have become of a trace's pods, with each of several configurations?"""

from contextlib import suppress
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
from lib.questions.errors import QuestionError
from lib.questions.page import Page, print_json, run_through
from lib.questions.replay.figures import Figures
from lib.questions.replay.generated import SIZES, generated
from lib.questions.replay.plot import check, draw
from lib.questions.replay.reading import NO_NODES, read_snapshot, read_trace
from lib.questions.replay.replaying import Replaying, profile_of
from lib.questions.replay.show import placements_into, print_csv, show_replays
from lib.questions.replay.trace import Trace, inflated, kinds_of
from lib.questions.verdict import Verdict
from lib.scheduling.framework.interface import Profile
from lib.scheduling.handle import Handle
from lib.service.command_line import option
from lib.service.config.file import default_config, load_config
from lib.service.policies import load_policies
from lib.service.served_profiles import Asked, profiles_for

TRACE, RUN, OUTPUT = "Pods and nodes", "How they are placed", "Output"
"""The parts of --help."""


class Output(StrEnum):
    """How the figures are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def ask_replay(
    context: typer.Context,
    trace: Annotated[
        Path | None,
        typer.Argument(
            metavar="TRACE",
            show_default=False,
            help="The pods: a CSV in the form of Alibaba's openb, manifests (YAML), or what `record` wrote; "
            "or else --arrivals.",
        ),
    ] = None,
    nodes: Annotated[
        Path | None,
        option(
            TRACE,
            "The nodes: a CSV as in openb, manifests, or what `save` wrote. A recording has its own.",
            metavar="FILE",
        ),
    ] = None,
    arrivals: Annotated[
        str, option(TRACE, "In place of TRACE: how often a pod arrives, at random.", metavar="poisson:20/min")
    ] = "",
    mix: Annotated[
        str, option(TRACE, f"With --arrivals: which pods, with weights. Sizes: {', '.join(SIZES)}.")
    ] = "small=70,large=30",
    during: Annotated[
        str, option(TRACE, "With --arrivals: for how long pods arrive.", "--for", metavar="DURATION")
    ] = "1h",
    runs_for: Annotated[
        str, option(TRACE, "With --arrivals: how long a pod runs, in the mean.", metavar="DURATION")
    ] = "10m",
    config: Annotated[
        list[Path] | None,
        option(
            RUN, "A KubeSchedulerConfiguration to replay by. Can be given several times.", metavar="FILE.yaml"
        ),
    ] = None,
    policy: Annotated[
        list[Path] | None,
        option(
            RUN,
            "Replay with the default filters, and with this policy alone for scores. "
            "Can be given several times.",
            metavar="FILE.py",
        ),
    ] = None,
    seed: Annotated[int, option(RUN, "The seed of all random choices.", metavar="NUMBER")] = 0,
    inflate: Annotated[
        float | None,
        option(
            TRACE,
            "Shuffle the pods, add some drawn at random until they ask for so many times what there is, "
            "and let none end.",
            min=0.0,
            metavar="FACTOR",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        option(
            OUTPUT,
            "Draw allocation, pending pods and used nodes over time. Needs matplotlib.",
            metavar="FILE.svg|png|html",
        ),
    ] = None,
    placements: Annotated[
        Path | None,
        option(OUTPUT, "Write into this CSV which node each pod got, and when.", metavar="FILE.csv"),
    ] = None,
    output: Annotated[
        Output, option(OUTPUT, "json and csv are for programs.", "--output", "-o")
    ] = Output.TABLE,
) -> Verdict:
    """What would have become of these pods, in virtual time: who gets a node, how long they wait.

    The cache, the queue, the plugins and preemption are those of the loop. Without --config and --policy, the
    default plugins decide.

    Exit 0: all pods got a node. 3: some didn't.
    """
    if plot:
        check(plot)
    if (trace is None) == (arrivals == ""):
        raise QuestionError("replay needs a trace, or --arrivals: one of the two")
    snapshot = read_snapshot(nodes) if nodes else None
    if trace:
        snapshot, replayed = read_trace(trace, snapshot)
        if replayed.note:
            complain(context.command_path, replayed.note)
    elif snapshot:
        length, mean_run = seconds_in(during, "--for"), seconds_in(runs_for, "--runs-for")
        replayed = Trace(generated(arrivals, mix, length, mean_run, seed))
        if not len(replayed.arrivals):
            raise QuestionError(
                f"--arrivals {arrivals}: no pod arrives within {during}; give --for more time"
            )
    else:
        raise QuestionError(NO_NODES)
    if inflate is not None:
        random = MACHINE.random(seed)
        replayed = Trace(inflated(replayed.arrivals, snapshot.of(Node), inflate, random))
    files: list[Path | None] = [*(config or []), *(policy or [])]
    kinds = kinds_of(replayed.arrivals)
    replays: list[Figures] = []
    with placements_into(placements) as note_placed:
        for file in files or [None]:
            profiles = _profiles(file, MACHINE.random(seed), is_policy=file in (policy or []))
            name = file.name if file else "default"
            replaying = Replaying(name, profiles, snapshot, replayed, kinds, seed)
            replaying.figures.note_placed = partial(note_placed, name)
            with suppress(KeyboardInterrupt):
                run_through(replaying.steps(), len(replayed.arrivals), f"replaying with {name}")
            replays.append(replaying.figures)
            if not replaying.figures.complete:
                complain(context.command_path, "stopped; what there is so far:")
                break
    if plot:
        draw(replays, plot)
    if output == Output.JSON:
        print_json({"question": "replay", "configs": [each.as_json() for each in replays]})
    elif output == Output.CSV:
        print_csv(replays)
    else:
        show_replays(replays, Page())
    return Verdict.YES if all(each.complete and not each.pending for each in replays) else Verdict.NO


def _profiles(file: Path | None, random: Random, *, is_policy: bool) -> list[Profile]:
    """The profiles of a configuration; a policy's: the default plugins, of which only the filters count."""
    if file and is_policy:
        (loaded,) = load_policies([file])
        return [profile_of(loaded.plugins, loaded.weights)]
    read = load_config(file) if file else default_config()
    return profiles_for(read, Asked(None if read.profiles else MAIN_SCHEDULER), Handle(random))
