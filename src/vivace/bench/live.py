"""What watching costs: milliseconds to encode a frame, and the share of a core that sends 30 a second to a viewer."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..live.client import Connection
from ..live.encode import quantize, vertex_normals
from ..live.protocol import Hello, encode_frame
from ..live.server import Broadcaster
from ..mesh import Mesh
from .timing import race

NAME = "live"
SIDES, RATE = (100, 316), 30.0


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    return [_measure(side, 1.0 if quick else 5.0, progress) for side in SIDES]


def _measure(side: int, seconds: float, progress: Callable[[str], None]) -> dict[str, Any]:
    mesh = Mesh.grid(side, side, size=(1, 1))
    positions, triangles = mesh.vertices.astype(np.float32), mesh.triangles.astype(np.int32)
    progress(f"{len(positions)} vertices: encoding")
    report = {"frame": 1, "milliseconds": {"stretch": 1.0, "total": 2.0}}
    whole = lambda: encode_frame(1, positions, vertex_normals(positions, triangles), None, report)  # noqa: E731
    parts = {
        "quantize ms": lambda: quantize(positions),
        "normals ms": lambda: vertex_normals(positions, triangles),
        "whole frame ms": whole,
    }
    row: dict[str, Any] = {"vertices": len(positions), "bytes": len(whole())}
    row |= {name: 1e3 * best for name, best in zip(parts, race(*parts.values(), seconds=0.2 * seconds))}
    progress(f"{len(positions)} vertices: sending")
    return {**row, **_send(positions, triangles, seconds)}


def _send(positions: np.ndarray, triangles: np.ndarray, seconds: float) -> dict[str, Any]:
    """Frames at a steady rate to one viewer: how many it sees, how old they are, and what the sender uses of a core."""
    extent = [positions.min(axis=0).tolist(), positions.max(axis=0).tolist()]
    about = {"particles": len(positions), "start": extent}
    broadcaster = Broadcaster(Hello("bench", about, triangles, []), "127.0.0.1", 0, None)
    connection = Connection("127.0.0.1", broadcaster.port, normals=True)
    ended, sent = threading.Event(), [0]

    def publish() -> None:
        due = time.perf_counter()
        while not ended.is_set():
            wave = positions + np.float32(0.01 * np.sin(sent[0]))
            broadcaster.publish(wave, None, {"published": time.perf_counter()})
            sent[0] += 1
            due += 1 / RATE
            ended.wait(max(due - time.perf_counter(), 0))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for _ in range(10):
            connection.next_frame(10)
        begin, first, used, ages = time.perf_counter(), sent[0], _processor_seconds(broadcaster.pid), []
        while time.perf_counter() - begin < seconds:
            frame = connection.next_frame(10)
            if frame is not None:
                ages.append(time.perf_counter() - frame.report["published"])
        took = time.perf_counter() - begin
        share = (_processor_seconds(broadcaster.pid) - used) / took
        return {
            "frames a second": len(ages) / took,
            "of those published": len(ages) / max(sent[0] - first, 1),
            "age ms": 1e3 * float(np.median(ages)),
            "share of a core": share,
        }
    finally:
        ended.set()
        thread.join()
        connection.close()
        broadcaster.close()


def _processor_seconds(process: int) -> float:
    """What another process has used; not known where there is no /proc."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    labels = [f"{row['vertices'] / 1000:.0f}K" for row in rows]
    left.bar_label(left.bar(labels, [row["whole frame ms"] for row in rows], color="#4477aa"), fmt="%.2f ms")
    left.set(ylabel="ms", title="encoding a frame, with normals")
    right.bar_label(right.bar(labels, [100 * row["share of a core"] for row in rows], color="#cc6677"), fmt="%.0f %%")
    right.set(ylabel="% of a core", title=f"sending {RATE:.0f} frames a second")
