"""Options that several verbs have: which manifests they are about."""

from pathlib import Path
from typing import Annotated

from lib.questions.asking import own_option

Manifests = Annotated[
    list[str] | None,
    own_option(
        "Manifests of pods, Deployments and such: a file, a folder or a URL; - is standard input. "
        "Can be given several times.",
        "--filename",
        "-f",
        metavar="FILE",
    ),
]

Kustomizations = Annotated[
    list[Path] | None, own_option("A kustomization.", "--kustomize", "-k", metavar="FOLDER")
]

Recursive = Annotated[bool, own_option("Also the folders in the folder of -f.", "--recursive", "-R")]

Replicas = Annotated[
    int | None,
    own_option("Take this many replicas, whatever the manifests say.", min=0, metavar="NUMBER"),
]
