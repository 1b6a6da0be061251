"""What ranks send each other: anything, with its arrays as they lie in memory."""

import copyreg
import importlib
import pickle
from types import ModuleType
from typing import Any

import numpy as np

COMMAND, DATA, ROWS = 1, 2, 3  # tags


def send(comm: Any, thing: Any, rank: int, tag: int = DATA) -> None:
    """Arrays go as they lie in memory, without a copy."""
    buffers: list[Any] = []
    text = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    comm.send((text, [raw.nbytes for raw in raws]), rank, tag)
    for raw in raws:
        comm.Send(raw, rank, tag)


def receive(comm: Any, rank: int, tag: int = DATA) -> Any:
    text, sizes = comm.recv(source=rank, tag=tag)
    buffers = [np.empty(size, np.uint8) for size in sizes]
    for buffer in buffers:
        comm.Recv(buffer, rank, tag)
    return pickle.loads(text, buffers=buffers)


copyreg.pickle(ModuleType, lambda module: (importlib.import_module, (module.__name__,)))  # a constraint is a module
