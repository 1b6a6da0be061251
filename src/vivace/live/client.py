"""A viewer's end of the connection."""

import contextlib
import queue
import threading
from typing import Any

from ..checks import extra
from ..errors import InputError
from .protocol import Frame, Hello, ProtocolError, check_command, decode_from_server, encode_ack, encode_command

LARGEST_MESSAGE = 1 << 30
PATIENCE = 10.0  # [s] until a server has answered
LONGEST_ANSWER = 60.0  # [s] to a command: a new solver may have to color and to compile


class Connection:
    """Frames as they come, the newest always; commands and their answers."""

    def __init__(self, host: str, port: int, token: str | None = None, **wants: Any):
        self.address, self.wants = f"{host}:{port}", wants
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._frames: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._asking, self._closed = threading.Lock(), threading.Event()
        self._to_acknowledge: int | None = None
        self.problem = ""
        self._socket = self._connect(f"ws://{f'[{host}]' if ':' in host else host}:{port}", token)
        try:
            hello = decode_from_server(self._socket.recv(timeout=PATIENCE))
        except (ProtocolError, TimeoutError, extra("websockets.exceptions", "live").WebSocketException) as problem:
            self._socket.close()
            raise InputError(f"{self.address} is no vivace server, or one of another version: {problem}") from problem
        if not isinstance(hello, Hello):
            self._socket.close()
            raise InputError(f"{self.address} is no vivace server: it does not say what it shows")
        self.hello = hello
        threading.Thread(target=self._listen, daemon=True, name="vivace viewer").start()

    def _connect(self, address: str, token: str | None) -> Any:
        errors = extra("websockets.exceptions", "live")
        connect = extra("websockets.sync.client", "live").connect
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        settings = dict(max_size=LARGEST_MESSAGE, compression=None, open_timeout=PATIENCE, proxy=None)
        try:
            return connect(address, additional_headers=headers, **settings)
        except errors.InvalidStatus as problem:
            if problem.response.status_code == 401:
                hint = "wrong token" if token else "it wants a token (--token)"
                raise InputError(f"{self.address} refuses: {hint}") from problem
            raise InputError(f"{self.address} refuses: {problem}") from problem
        except (OSError, TimeoutError, errors.WebSocketException, ValueError) as problem:
            why = "it does not answer" if isinstance(problem, TimeoutError) else str(problem)
            raise InputError(f"cannot connect to {self.address}: {why}") from problem

    def next_frame(self, timeout: float | None = None) -> Frame | None:
        """The newest frame; asks for the one after it when called again. None if none came, or the connection is over.

        `closed` tells which.
        """
        self.acknowledge()
        try:
            frame = self._frames.get(timeout=timeout)
        except queue.Empty:
            return None
        if frame is not None:
            self._to_acknowledge = frame.number
        return frame

    def acknowledge(self) -> None:
        """The last frame is drawn: the next may come."""
        if self._to_acknowledge is not None:
            number, self._to_acknowledge = self._to_acknowledge, None
            with contextlib.suppress(extra("websockets.exceptions", "live").ConnectionClosed):
                self._socket.send(encode_ack(number, self.wants))

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Let the server do something; gives its answer. What it refuses is an InputError."""
        command = {"do": do, **arguments}
        try:
            check_command(command)  # what is malformed would end the connection
        except ProtocolError as problem:
            raise InputError(str(problem)) from problem
        with self._asking:
            try:
                self._socket.send(encode_command(command))
                answer = self._answers.get(timeout=LONGEST_ANSWER)
            except (extra("websockets.exceptions", "live").ConnectionClosed, queue.Empty) as problem:
                self.close()  # a late answer would be taken for the next one's
                raise InputError(f"{self.address} is gone") from problem
        if "refused" in answer:
            raise InputError(answer["refused"])
        if "error" in answer:
            raise InputError(f"{self.address}: {answer['error']}")
        return answer

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        self._socket.close()

    def _listen(self) -> None:
        try:
            for message in self._socket:
                heard = decode_from_server(message)
                if isinstance(heard, Frame):
                    self._frames.put(heard)
                elif isinstance(heard, dict):
                    self._answers.put(heard.get("answer", heard))
        except (extra("websockets.exceptions", "live").ConnectionClosed, ProtocolError) as problem:
            self.problem = str(problem)
        finally:
            self._closed.set()
            self._frames.put(None)
            self._answers.put({"error": "the connection is closed"})
