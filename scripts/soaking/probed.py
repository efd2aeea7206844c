"""poller, with a signal by which it counts its objects: python -m scripts.soaking.probed FILE OPTIONS...

At SIGUSR2 it writes into FILE how many blocks of memory its objects have, and how many objects there are of
each class. A metric would not do: garbage must be collected first, and that takes too long for a scrape.
"""

import gc
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import lib.startup
from poller import loop


def _write(file: Path) -> None:
    gc.collect()
    blocks = sys.getallocatedblocks()
    kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"blocks": blocks, "kinds": kinds}))
    part.replace(file)


if __name__ == "__main__":
    target = Path(sys.argv.pop(1))

    def _on_signal(_number: int, _frame: FrameType | None) -> None:
        _write(target)

    signal.signal(signal.SIGUSR2, _on_signal)
    lib.startup.run(loop)
