"""Moving pictures: MP4 (H.264, by the ffmpeg that imageio-ffmpeg brings) and GIF."""

from pathlib import Path
from typing import Any

import numpy as np

from ..model import Model
from . import Camera, partial_name
from .picture import Renderer, extra

RATE, GIF_RATE = 30, 20  # pictures a second, at most
GIF_SIZE = (640, 360)


class FilmWriter:
    """Shows the motion at its real speed; where frames are shorter than a picture, some are left out."""

    rate, size = RATE, (1280, 720)

    def __init__(self, path: Path, model: Model, dt: float, camera: Camera | None = None):
        self.path, self._dt, self._seen, self._shown = path, dt, 0, 0
        self._target = partial_name(path)
        self._open()
        self._renderer = Renderer(model, camera, self.size)
        self.write(model.positions)

    def write(self, positions: np.ndarray) -> None:
        # Picture k shows the newest frame at time k / rate.
        while self._shown <= self._seen * self._dt * self.rate + 1e-6:
            self._append(self._renderer.picture(positions))
            self._shown += 1
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
        self._finish()
        self._target.unlink(missing_ok=True)

    def _open(self) -> None:
        ffmpeg = extra("imageio_ffmpeg")
        self._stream = ffmpeg.write_frames(
            str(self._target),
            self.size,
            fps=self.rate,
            codec="libx264",
            pix_fmt_out="yuv420p",
            output_params=["-crf", "20", "-preset", "fast"],
            macro_block_size=8,
            ffmpeg_log_level="error",
        )
        self._stream.send(None)

    def _append(self, picture: np.ndarray) -> None:
        self._stream.send(np.ascontiguousarray(picture))

    def _finish(self) -> None:
        self._stream.close()


class GifWriter(FilmWriter):
    """Smaller and with fewer colors, for pages that show no video."""

    rate, size = GIF_RATE, GIF_SIZE

    def _open(self) -> None:
        self._images = extra("PIL.Image")
        self._pictures: list[Any] = []

    def _append(self, picture: np.ndarray) -> None:
        self._pictures.append(self._images.fromarray(picture).quantize(64, dither=0))

    def _finish(self) -> None:
        first, *others = self._pictures
        first.save(self._target, save_all=True, append_images=others, duration=1000 // self.rate, loop=0, optimize=True)


WRITERS = {".mp4": FilmWriter, ".gif": GifWriter}
