"""Directories that are expensive to fill and are kept between test runs."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cached_directory(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the cached directory ``name``, filling it first when it is not there.

    Concurrent callers, in this process or another, wait for the one that fills.

    Args:
        name: Directory name; carries the version of what it holds.
        fill: Called with an empty directory. What it raises propagates, and nothing is kept.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lookup-stage"
    root.mkdir(parents=True, exist_ok=True)
    target = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            for leftover in root.glob(f"{name}.partial-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            # Filled under another name and renamed, so that a directory which exists is complete; a name of
            # its own, because the programs of a caller that was killed may still be writing to theirs.
            partial = Path(tempfile.mkdtemp(prefix=f"{name}.partial-", dir=root))
            fill(partial)
            partial.rename(target)
    return target
