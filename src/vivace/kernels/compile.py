"""Kernels with one C signature: called by address, cached on disk, compiled again when their sources change."""

import hashlib
import inspect
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from llvmlite import ir
from numba import cfunc, njit, types
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from ..errors import InputError
from . import lanes, rows

# Only fused multiply-add: under full fast-math a check for NaN finds nothing, and it gains nothing (measured).
OPTIONS = dict(error_model="numpy", fastmath={"contract"})
FLOATS, INTS, DOUBLES = (types.CPointer(ty) for ty in (types.float32, types.int32, types.float64))
ADDRESSES = types.CPointer(types.int64)
# Every kernel takes the addresses of its arrays and a range of items. In one sweep it is called for several ranges, by
# any threads, in any order: an item may need nothing of another, unless blocks count what is done (`early.py`).
SIGNATURE = types.void(ADDRESSES, types.int64, types.int64)


def cached(compile_with):
    """`compile_with(cache=True)`; where no folder can be written, the same without the disk cache."""
    try:
        return compile_with(cache=True)
    except RuntimeError as problem:
        if "cannot cache" not in str(problem):
            raise
        return compile_with(cache=False)


def kernel(function):
    """Decorator: compile now, or load from the disk cache.

    Numba finds a function in its cache by file, code and closure. So a kernel may be a closure over plain module-level
    functions, which are pickled by name and are equal in the next process; a closure over `@njit` functions never hits.
    """
    try:
        return cached(lambda cache: cfunc(SIGNATURE, cache=cache, **OPTIONS)(function))
    except NumbaError as problem:
        inlined = [inner for inner in _enclosed(function) if not inner.__module__.startswith("vivace.kernels.")]
        names = ", ".join(f"{inner.__module__}.{inner.__qualname__}" for inner in inlined) or function.__name__
        reason = next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
        raise InputError(f"{names} cannot be compiled: {reason.strip()} (docs/extending.md has the rules)") from problem


class _Cache(FunctionCache):
    """Numba's own looks at the file of a function alone; this one sees changes in what it calls, near it or here.

    And it tells apart what one function becomes with different options.
    """

    def __init__(self, function, options):
        super().__init__(function)
        self._options = repr(sorted(options.items()))

    def _index_key(self, signature, codegen):
        folders = Path(self._py_func.__code__.co_filename).parent, Path(__file__).parent
        digests = (_folder_digest(folder) for folder in folders)
        return *super()._index_key(signature, codegen), self._options, *digests


@cache
def _folder_digest(folder):
    sources = [path.read_bytes() for path in sorted(folder.glob("*.py"))]
    return hashlib.sha256(b"".join(sources)).hexdigest()


def compiled(function, **options):
    """Decorator: `njit` with strict arithmetic, cached on disk."""

    def compile_with(cache):
        dispatcher = njit(error_model="numpy", **options)(function)
        if cache:
            dispatcher._cache = _Cache(function, options)
        return dispatcher

    return cached(compile_with)


def compiled_parallel(function, **options):
    """Decorator: `compiled`, with `prange` over threads; an item may read only what was there before the loop."""
    return compiled(function, parallel=True, **options)


def _source(module, function):
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):  # typed at a prompt or in a notebook
        return repr((function.__code__.co_code, function.__code__.co_consts, function.__code__.co_names))


def _constants(function):
    """Numbers that a function takes from its module, which may have imported them from another file."""
    named = {name: function.__globals__.get(name) for name in sorted(function.__code__.co_names)}
    return repr({name: value for name, value in named.items() if isinstance(value, (int, float, np.generic, tuple))})


def _enclosed(*functions):
    """The functions that some were made with: those in their closures, and in the closures of these."""
    found, waiting = {}, list(functions)
    while waiting:
        cells = [cell.cell_contents for cell in waiting.pop().__closure__ or ()]
        inner = [content for content in cells if inspect.isfunction(content) and content not in found]
        found.update(dict.fromkeys(inner))
        waiting += inner
    return list(found)


def source_digest(*functions):
    """Digest of the modules that these functions, and the value functions they use or enclose, are written in.

    Numba compiles anew when the kernel's own file changes, but does not see the files of what it inlines. A kernel
    that mentions this digest in its closure is found only if all of them are unchanged.
    """
    sources = {module.__name__: inspect.getsource(module) for module in (lanes, rows, sys.modules[__name__])}
    waiting = [*functions, *_enclosed(*functions)]
    while waiting:
        function = waiting.pop()
        sources[f"constants of {function.__module__}.{function.__qualname__}"] = _constants(function)
        module = inspect.getmodule(function)
        name = module.__name__ if module else function.__qualname__
        if name not in sources:
            sources[name] = _source(module, function)
            waiting += (
                [v for v in vars(module).values() if inspect.isfunction(v) and v in lanes.value_functions]
                if module
                else []
            )
    return hashlib.sha256("".join(sources[name] for name in sorted(sources)).encode()).hexdigest()


def _pointer_to(target):
    @intrinsic
    def pointer(typing_context, address):
        def generate(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(target))

        return target(types.int64), generate

    return pointer


floats_at, ints_at, doubles_at = _pointer_to(FLOATS), _pointer_to(INTS), _pointer_to(DOUBLES)
words_at = _pointer_to(ADDRESSES)  # eight bytes each, whatever they mean


@intrinsic
def call_kernel(typing_context, kernel, arguments, first, last):
    """Call a kernel by its address; `arguments` is the address of its list of addresses."""

    def generate(context, builder, signature, args):
        wanted = [context.get_value_type(ty) for ty in SIGNATURE.args]
        function = builder.inttoptr(args[0], ir.FunctionType(ir.VoidType(), wanted).as_pointer())
        builder.call(function, [builder.inttoptr(args[1], wanted[0]), *args[2:]])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64, types.int64), generate


@cache
def _tell_once():
    print("vivace: compiling kernels for this processor, once; this takes some seconds", file=sys.stderr, flush=True)


def _tell_user(_name):
    _tell_once()


class _Announcer(event.Listener):
    """Tells `say(name)` when Numba really compiles one of our functions, not when it finds one in its cache."""

    def __init__(self):
        self.say, self.seen = _tell_user, set()

    def on_start(self, happening):
        name = happening.data["qualname"].split(".")[-1]
        if happening.data["module"].startswith("vivace.") and name not in self.seen:
            self.seen.add(name)
            self.say(name)

    def on_end(self, happening):
        pass


_announcer = _Announcer()
event.register("numba:run_pass", _announcer)


@contextmanager
def announce_compiling(say: Callable[[str], None]):
    """Call `say(name)` for every function that is compiled, instead of a line on standard error for the first."""
    before = _announcer.say, _announcer.seen
    _announcer.say, _announcer.seen = say, set()
    try:
        yield
    finally:
        _announcer.say, _announcer.seen = before
