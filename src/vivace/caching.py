"""Arrays that take long to make, kept in files for the next time. Where no file can be kept, they are made again."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_path

VERSION = 1  # of what is kept; another one is never looked at
MOST_FILES = 50  # of a kind


def folder() -> Path:
    """Where files are kept: VIVACE_CACHE, or the place that this system has for it."""
    return Path(os.environ.get("VIVACE_CACHE") or user_cache_path("vivace"))


def kept_arrays(
    kind: str, key: Iterable[Any], make: Callable[[], dict[str, np.ndarray]], wanted: set[str] | None = None
) -> dict[str, np.ndarray]:
    """What `make()` gives, or gave when it was last asked with the same `key` of arrays and plain values.

    A file without the `wanted` arrays is made anew.
    """
    path = folder() / kind / f"{_digest(key)}.npz"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in wanted or file}
        os.utime(path)
        return arrays
    except Exception:  # not there, or broken
        arrays = make()
    _keep(path, arrays)
    return arrays


def _digest(key: Iterable[Any]) -> str:
    digest = hashlib.sha256(f"vivace {VERSION}".encode())
    for part in key:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape}".encode())
            digest.update(part.tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()


def _keep(path: Path, arrays: dict[str, np.ndarray]) -> None:
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial.npz")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(partial, **arrays)  # type: ignore[arg-type]
        partial.replace(path)
        by_age = sorted(path.parent.glob("*.npz"), key=lambda file: file.stat().st_mtime)
        for old in by_age[:-MOST_FILES]:
            old.unlink(missing_ok=True)
    except OSError:  # a full disk, or no place to write to: then it is made again next time
        pass
    finally:
        try:
            partial.unlink(missing_ok=True)
        except OSError:
            pass
