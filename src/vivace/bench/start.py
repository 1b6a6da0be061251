"""Seconds from the command to the end of one frame of cloth-on-tube, with an empty and with a full kernel cache."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

NAME = "start"


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for label in ("cold", "warm"):
            progress(f"{label} start")
            begin = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "vivace.cli", "run", "cloth-on-tube", "--frames", "1"],
                check=True,
                capture_output=True,
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
            )
            rows.append({"start": label, "seconds": time.perf_counter() - begin})
    return rows


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    axes = figure.subplots()
    axes.bar_label(
        axes.bar([row["start"] for row in rows], [row["seconds"] for row in rows], color="#4477aa"), fmt="%.1f s"
    )
    axes.set(ylabel="seconds", title="vivace run cloth-on-tube --frames 1")
