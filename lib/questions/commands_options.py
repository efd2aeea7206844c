"""Options that several verbs have: which manifests they are about."""

from pathlib import Path
from typing import Annotated

import typer

Manifests = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        show_envvar=False,
        help="Manifests of pods, Deployments and such: a file, a folder or a URL; - is standard input. "
        "Can be given several times.",
    ),
]

Kustomizations = Annotated[
    list[Path] | None,
    typer.Option("--kustomize", "-k", metavar="FOLDER", show_envvar=False, help="A kustomization."),
]

Recursive = Annotated[
    bool, typer.Option("--recursive", "-R", show_envvar=False, help="Also the folders in the folder of -f.")
]

Replicas = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="NUMBER",
        show_envvar=False,
        help="Take this many replicas, whatever the manifests say.",
    ),
]
