"""Telling whoever listens how far a long piece of work has come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

Listener = Callable[[str, int, int], None]  # what is being done, items done, items in all
_listener: ContextVar[Listener | None] = ContextVar("progress listener", default=None)


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Within this block, long work tells `listener(what, done, total)` how far it is."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def pieces(what: str, items: np.ndarray, count: int = 40) -> Iterator[np.ndarray]:
    """The items in about `count` pieces, telling after each how many are done."""
    done = 0
    for piece in np.array_split(items, min(count, max(len(items) // 1000, 1))):
        yield piece
        done += len(piece)
        listener = _listener.get()
        if listener:
            listener(what, done, len(items))
