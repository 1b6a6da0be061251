"""A watch over the ranks of a job: MPI may wait for ever for a host that is gone.

Every rank gives a sign of life each second, over a connection of its own, and gets one back. A rank that is silent for
long, or whose connection ends without a farewell, is lost: then the others are told to end, and do so at once. A rank
that hears nothing of the watch ends too, so that nothing is left running when the watch itself is gone.
"""

import json
import os
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

SIGN, FAREWELL, END, INTERRUPT = b".", b"b", b"x", b"i"
BETWEEN, SILENCE = 1.0, 12.0  # [s] between signs, and how long there may be none
STARTING = 120.0  # [s] until all ranks must have come, for interpreters that start slowly
VARIABLE = "VIVACE_WATCH"


@dataclass
class Watched:
    """A rank as the watch knows it."""

    rank: int
    host: str
    heard: float
    gone: bool = False


class Watch:
    """Listens to the ranks. `lost` is who is gone and why, which it says as soon as one is; then all shall end."""

    def __init__(self, ranks: int, address: str = "127.0.0.1", say: Callable[[str], None] = lambda _: None):
        self.ranks, self.token, self.say = ranks, secrets.token_hex(16), say
        self.lost: str | None = None
        self._listener = socket.create_server((address, 0))
        self.place = f"{address}:{self._listener.getsockname()[1]}:{self.token}"
        self._known: dict[socket.socket, Watched] = {}
        self.met = 0  # ranks that have joined
        self._started, self._closing = time.monotonic(), False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def interrupt(self) -> None:
        """Let the first rank end as a user would end it."""
        self._tell(INTERRUPT, lambda watched: watched.rank == 0)

    def close(self) -> None:
        self._closing = True
        self._thread.join(5)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            told = time.monotonic()
            while not self._closing:
                for key, _ in selector.select(0.2):
                    if key.fileobj is self._listener:
                        self._welcome(selector)
                    else:
                        self._hear(key.fileobj, selector)  # type: ignore[arg-type]
                now = time.monotonic()
                if now - told > BETWEEN:
                    told = now
                    self._tell(SIGN)
                self._look(now)
            for connection in list(self._known):
                connection.close()

    def _welcome(self, selector: selectors.BaseSelector) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(2)
        try:
            about = json.loads(connection.makefile("rb", buffering=0).readline(1000))
            if not secrets.compare_digest(about["token"], self.token):
                raise ValueError
            self._known[connection] = Watched(int(about["rank"]), str(about["host"]), time.monotonic())
            selector.register(connection, selectors.EVENT_READ)
            self.met += 1
        except (OSError, ValueError, KeyError, TypeError):
            connection.close()  # nobody of ours

    def _hear(self, connection: socket.socket, selector: selectors.BaseSelector) -> None:
        watched = self._known[connection]
        try:
            words = connection.recv(1000)
        except OSError:
            words = b""
        watched.heard = time.monotonic()
        watched.gone |= FAREWELL in words
        if not words:
            selector.unregister(connection)
            connection.close()
            del self._known[connection]
            if not watched.gone:
                self._lose(f"rank {watched.rank} on {watched.host} has ended without a word")

    def _look(self, now: float) -> None:
        for watched in self._known.values():
            if not watched.gone and now - watched.heard > SILENCE:
                self._lose(f"rank {watched.rank} on {watched.host} has given no sign for {SILENCE:.0f} s")
        if self.met < self.ranks and now - self._started > STARTING:
            self._lose(f"{self.ranks - self.met} of {self.ranks} ranks have not come within {STARTING:.0f} s")

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = why
            try:
                self.say(why)
            finally:  # not before it has spoken: the first rank is told too
                self._tell(END)

    def _tell(self, word: bytes, whom: Callable[[Watched], bool] = lambda _: True) -> None:
        for connection, watched in list(self._known.items()):
            if whom(watched):
                try:
                    connection.send(word)
                except OSError:
                    pass


class Pulse:
    """The sign of life of one rank."""

    def __init__(self, place: str, rank: int):
        address, port, token = place.rsplit(":", 2)
        self.rank = rank
        self._socket = socket.create_connection((address, int(port)), timeout=30)
        about = {"token": token, "rank": rank, "host": socket.gethostname(), "pid": os.getpid()}
        self._socket.sendall(json.dumps(about).encode() + b"\n")
        self._socket.settimeout(BETWEEN)
        self._ended = False
        threading.Thread(target=self._beat, daemon=True).start()

    def end(self) -> None:
        """Say farewell: from now on nobody wonders."""
        if not self._ended:
            self._ended = True
            try:
                self._socket.send(FAREWELL)
            except OSError:
                pass

    def _beat(self) -> None:
        heard = time.monotonic()
        while not self._ended:
            try:
                words = self._socket.recv(1000)
                if not words or END in words:
                    self._fall("" if words else "the watch over this job is gone")
                if INTERRUPT in words:
                    os.kill(os.getpid(), signal.SIGINT)
                heard = time.monotonic()
            except TimeoutError:
                pass
            except OSError:
                self._fall("the watch over this job is gone")
            if time.monotonic() - heard > SILENCE:
                self._fall(f"the watch over this job has given no sign for {SILENCE:.0f} s")
            try:
                self._socket.send(SIGN)
            except OSError:
                pass

    def _fall(self, why: str) -> None:
        """End at once: whoever waits within MPI cannot be asked to."""
        if self._ended:
            return
        if why:
            print(f"vivace: rank {self.rank}: {why}; this rank ends", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def address_towards(host: str) -> str:
    """The address of this computer that another one reaches it by."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
            trial.connect((host, 9))  # sends nothing
            return str(trial.getsockname()[0])
    except OSError:
        return "127.0.0.1"
