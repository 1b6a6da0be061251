"""Moving pictures: MP4 (H.264, by the ffmpeg that imageio-ffmpeg brings) and GIF."""

import errno
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..model import Model
from . import Camera, extra, partial_name
from .picture import Renderer

RATE, GIF_RATE = 30, 20  # pictures a second, at most
GIF_SIZE = (640, 360)
LONGEST_FRAME = 1.0  # [s]


class FilmWriter:
    """Shows the motion at its real speed; where frames are shorter than a picture, some are left out."""

    rate, size = RATE, (1280, 720)
    _encoder: subprocess.Popen[bytes] | None = None
    _complaints: list[str] = []

    def __init__(self, path: Path, model: Model, dt: float, camera: Camera | None = None, starts: float = 0.0):
        if dt > LONGEST_FRAME:
            raise InputError(f"cannot film frames of {dt:g} s; {LONGEST_FRAME:g} s is the longest")
        self.path, self._dt, self._starts, self._seen, self._shown = path, dt, starts, 0, 0
        self._target = partial_name(path)
        self._renderer = Renderer(model, camera, self.size)
        try:
            self._open()
            self.write(model.positions)
        except BaseException:
            self.discard()
            raise

    def write(self, positions: np.ndarray) -> None:
        # Picture k shows the newest frame at time k / rate.
        due = int(self._seen * self._dt * self.rate + 1e-6) + 1 - self._shown
        if due > 0:
            picture = self._renderer.picture(positions, self._starts + self._seen * self._dt)
            for _ in range(due):
                self._append(picture)
            self._shown += due
        self._seen += 1

    def close(self) -> None:
        self._renderer.close()
        try:
            self._finish()
            self._target.replace(self.path)
        finally:
            self._target.unlink(missing_ok=True)

    def discard(self) -> None:
        self._renderer.close()
        self._abandon()
        self._target.unlink(missing_ok=True)

    def _open(self) -> None:
        width, height = self.size
        told = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(self.rate), "-i", "-"]
        wanted = ["-an", "-vcodec", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-preset", "fast"]
        # The simulation goes first where both want the cores.
        polite = ["nice", "-n", "19"] if shutil.which("nice") else []
        command = [*polite, extra("imageio_ffmpeg").get_ffmpeg_exe(), "-y", "-v", "error", *told, *wanted]
        # A group of its own: a Ctrl-C is for us, and the film is still to be finished then.
        self._encoder = subprocess.Popen(
            [*command, f"file:{self._target.resolve()}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )

    def _append(self, picture: np.ndarray) -> None:
        assert self._encoder is not None and self._encoder.stdin is not None
        try:
            self._encoder.stdin.write(np.ascontiguousarray(picture).tobytes())
        except BrokenPipeError:
            self._finish()  # says why

    def _abandon(self) -> None:
        if self._encoder is not None:
            self._encoder.kill()
            self._encoder.communicate()

    def _finish(self) -> None:
        """Wait for the encoder; what it has to complain about becomes the error."""
        assert self._encoder is not None
        with suppress(BrokenPipeError):
            _, complaints = self._encoder.communicate()
            self._complaints = complaints.decode(errors="replace").strip().splitlines()
        if self._encoder.wait() != 0:
            reason = self._complaints[-1] if self._complaints else f"ffmpeg ended with {self._encoder.returncode}"
            full = any("No space left" in line for line in self._complaints)
            raise OSError(
                errno.ENOSPC if full else errno.EIO, "No space left on device" if full else reason, str(self.path)
            )


class GifWriter(FilmWriter):
    """Smaller and with fewer colors, for pages that show no video."""

    rate, size = GIF_RATE, GIF_SIZE

    def _open(self) -> None:
        self._images = extra("PIL.Image")
        self._pictures: list[Any] = []

    def _abandon(self) -> None:
        pass

    def _append(self, picture: np.ndarray) -> None:
        self._pictures.append(self._images.fromarray(picture).quantize(64, dither=0))

    def _finish(self) -> None:
        first, *others = self._pictures
        first.save(self._target, save_all=True, append_images=others, duration=1000 // self.rate, loop=0, optimize=True)


WRITERS = {".mp4": FilmWriter, ".gif": GifWriter}
