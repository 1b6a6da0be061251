"""The process that viewers talk to: `python -m vivace.live.broadcast`, started by `server.py`.

It is apart from the simulation so that no viewer can slow that down or break it, but by what it asks the simulation to
do. Its standard input says what to send: first a line on how to begin, then a line for each frame and each answer. On
its standard output it says where it listens, then what viewers ask. It ends with its input. All lines are JSON.
"""

import asyncio
import contextlib
import hmac
import json
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from ..checks import extra
from .encode import vertex_normals
from .frames import SharedFrames
from .protocol import (
    MOST_COMMAND_BYTES,
    Kind,
    ProtocolError,
    decode_from_viewer,
    decode_hello,
    encode_answer,
    encode_error,
    encode_frame,
)

MOST_VIEWERS = 500
LONGEST_LINE = 1 << 22
REFUSED, FORBIDDEN, BROKEN, FULL = 401, 403, 1007, 1013  # HTTP and WebSocket codes
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PAGE = Path(__file__).with_name("view.html")


class Viewer:
    """One connection. It has a frame at a time: the next is sent when it has acknowledged the last."""

    def __init__(self, number: int, socket: Any):
        self.number, self.socket = number, socket
        self.sent, self.acknowledged, self.wants = -1, True, dict[str, Any]()
        self.wake = asyncio.Event()
        self.wake.set()


class Broadcast:
    def __init__(self, start: dict[str, Any]):
        self.start, self.token = start, start["token"]
        self.hello = Path(start["hello"]).read_bytes()
        self.triangles = decode_hello(self.hello).triangles.copy()
        self.frames = SharedFrames(Path(start["frames"]), start["particles"])
        self.newest: dict[str, Any] = {"number": -1}
        self.viewers: dict[int, Viewer] = {}
        self.answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._encoded: dict[Any, bytes] = {}
        self._viewers_seen = self._asked = 0
        nothing = np.zeros((0, 3), np.float32)
        encode_frame(0, nothing, vertex_normals(nothing, self.triangles[:0]), None, {})  # compile before a viewer waits

    async def run(self, lines: asyncio.StreamReader) -> None:
        serve = extra("websockets.asyncio.server", "live").serve
        settings = dict(
            process_request=self._admit,
            max_size=MOST_COMMAND_BYTES,
            max_queue=4,
            compression=None,
            close_timeout=2,
            server_header=None,
        )
        try:
            server = await serve(self._attend, self.start["host"], self.start["port"], **settings)
        except OSError as problem:
            say(error=problem.strerror or str(problem))
            return
        async with server:
            say(port=next(iter(server.sockets)).getsockname()[1])
            while line := await lines.readline():
                self._hear(json.loads(line))
            server.close(close_connections=True)

    def _hear(self, line: dict[str, Any]) -> None:
        if "answer" in line:
            waiting = self.answers.pop(line["ticket"], None)
            if waiting and not waiting.done():
                waiting.set_result(line["answer"])
            return
        self.newest = line
        self._encoded.clear()
        for viewer in self.viewers.values():
            viewer.wake.set()

    def _admit(self, connection: Any, request: Any) -> Any:
        """None lets a viewer in. A browser gets the page, and its connection is let in if it comes from that page."""
        url, headers = urlsplit(request.path), request.headers
        given = parse_qs(url.query).get("token", [headers.get("Authorization", "").removeprefix("Bearer ")])[0]
        if self.token and not hmac.compare_digest(given.encode(), self.token.encode()):
            return connection.respond(REFUSED, "wrong token\n")
        if "Upgrade" not in headers:
            if url.path != "/":
                return connection.respond(404, "there is only /\n")
            response = connection.respond(200, PAGE.read_text())
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = "text/html; charset=utf-8"
            return response
        host, origin = headers.get("Host", ""), headers.get("Origin")
        own = self.token or urlsplit(f"//{host}").hostname in LOOPBACK  # else another name may lead here
        if origin is not None and not (own and origin in (f"http://{host}", f"https://{host}")):
            return connection.respond(FORBIDDEN, "pages from elsewhere are not let in\n")
        return None

    async def _attend(self, socket: Any) -> None:
        """All that happens between a viewer's coming and its going."""
        closed = extra("websockets.exceptions", "live").ConnectionClosed
        if len(self.viewers) >= MOST_VIEWERS:
            await socket.close(FULL, "too many viewers")
            return
        self._viewers_seen += 1
        viewer = self.viewers[self._viewers_seen] = Viewer(self._viewers_seen, socket)
        sending = asyncio.create_task(self._send_frames(viewer))
        try:
            async for message in socket:
                await self._obey(viewer, message)
        except ProtocolError as problem:
            try:
                await asyncio.wait_for(socket.send(encode_error(str(problem))), 2)
            except (closed, TimeoutError):
                pass
            await socket.close(BROKEN, "")
        except closed:
            pass
        finally:
            sending.cancel()
            del self.viewers[viewer.number]
            say(gone=viewer.number)

    async def _obey(self, viewer: Viewer, message: Any) -> None:
        kind, content = decode_from_viewer(message)
        if kind == Kind.ACK:
            if content["number"] != viewer.sent or viewer.acknowledged:
                raise ProtocolError(f"ACK: frame {content['number']} is not the one that was sent last")
            viewer.acknowledged, viewer.wants = True, content["wants"]
            viewer.wake.set()
            return
        self._asked += 1
        answer = self.answers[self._asked] = asyncio.get_running_loop().create_future()
        say(viewer=viewer.number, ticket=self._asked, command=content)
        await viewer.socket.send(encode_answer(await answer))

    async def _send_frames(self, viewer: Viewer) -> None:
        """The newest frame, as soon as the last one was acknowledged; those in between are never seen."""
        closed = extra("websockets.exceptions", "live").ConnectionClosed
        try:
            await viewer.socket.send(self.hello)
            while True:
                await viewer.wake.wait()
                viewer.wake.clear()
                message = self._message(viewer) if viewer.acknowledged else None
                if message is not None:
                    viewer.sent, viewer.acknowledged = self.newest["number"], False
                    await viewer.socket.send(message)
        except closed:
            pass

    def _message(self, viewer: Viewer) -> bytes | None:
        """The newest frame as this viewer wants it; None if it has that already, or the next is about to come."""
        line, wants = self.newest, viewer.wants
        if line["number"] <= viewer.sent:
            return None  # also before the first frame
        normals, quantized = wants.get("normals", False), wants.get("quantized", True)
        if (normals, quantized) not in self._encoded:
            read = self.frames.read(line["number"])
            if read is None:
                return None
            positions, paint = read
            made = vertex_normals(positions, self.triangles) if normals else None
            shown = paint if line["painted"] else None
            content = line["number"], positions, made, shown, line["report"]
            self._encoded[normals, quantized] = encode_frame(*content, quantized)
        return self._encoded[normals, quantized]


def say(**line: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # the simulation has ended, and so will this
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


async def main() -> None:
    lines = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await Broadcast(json.loads(await lines.readline())).run(lines)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt ends the simulation, and that ends this
    asyncio.run(main())
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.close()
