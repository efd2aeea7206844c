"""Downloads a release of kubectl, and installs it if its checksum is right.

python fetch_kubectl.py VERSION ARCHITECTURE SHA256 FILE
"""

import hashlib
import os
import sys
import urllib.request
from pathlib import Path

RELEASES = os.environ.get("KUBECTL_RELEASES", "https://dl.k8s.io/release")


def main() -> None:
    """Fetch it, or say why that can't be done."""
    version, architecture, wanted, file = sys.argv[1:]
    if not (version and wanted):
        sys.exit(
            "give --build-arg KUBECTL_VERSION=v1.36.0 and --build-arg KUBECTL_SHA256=...: see the Dockerfile"
        )
    url = f"{RELEASES}/{version}/bin/linux/{architecture}/kubectl"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            content = answer.read()
    except OSError as error:
        sys.exit(f"kubectl can't be fetched from {url}: {error}; is there such a version, and a network?")
    found = hashlib.sha256(content).hexdigest()
    if found != wanted.lower():
        sys.exit(f"{url} is not what was asked for: its SHA-256 is {found}, not {wanted}")
    Path(file).write_bytes(content)
    Path(file).chmod(0o755)


if __name__ == "__main__":
    main()
