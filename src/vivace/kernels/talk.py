"""Messages between ranks as sweeps: MPI's functions are called by their addresses, from within the region.

So a frame need not return to Python between its sweeps, whose caches are cold by then. Each sweep has one item. A
function that fails leaves its code where all of them look first, and the rest say nothing more.
"""

from functools import cache

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import doubles_at, ints_at, kernel, source_digest, words_at
from .lanes import value_function


@intrinsic
def call_c(typing_context, function, arguments):
    """What a C function at an address returns. Its arguments are whole numbers, handles and addresses, all as int64."""

    def generate(context, builder, signature, args):
        values = cgutils.unpack_tuple(builder, args[1], len(arguments))
        kind = ir.FunctionType(ir.IntType(32), [value.type for value in values])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), values), ir.IntType(64))

    return types.int64(types.int64, arguments), generate


@value_function
def copy_row(target, to, source, at, words):
    for i in range(words):
        target[words * to + i] = source[words * at + i]


@cache
def start_kernel():
    """Copy rows to where they are sent from, and start to send and to receive.

    Addresses: failure, table, words of eight bytes in a row, rows, their number, what is sent, MPI_Startall, requests,
    their number.
    """
    digest = source_digest(copy_row)

    @kernel
    def start(addresses, first, last):
        _ = digest  # part of the cache key
        failure, table, rows = ints_at(addresses[0]), words_at(addresses[1]), ints_at(addresses[3])
        sent = words_at(addresses[5])
        if first < last and failure[0] == 0:
            for i in range(addresses[4]):
                copy_row(sent, i, table, rows[i], addresses[2])
            failure[0] = call_c(addresses[6], (addresses[8], addresses[7]))

    return start


@cache
def finish_kernel():
    """Wait until all is sent and received, and copy what has come to its rows.

    Addresses: failure, table, words of eight bytes in a row, rows, their number, what was received, MPI_Waitall,
    requests, their number, statuses.
    """
    digest = source_digest(copy_row)

    @kernel
    def finish(addresses, first, last):
        _ = digest  # part of the cache key
        failure, table, rows = ints_at(addresses[0]), words_at(addresses[1]), ints_at(addresses[3])
        received = words_at(addresses[5])
        if first < last and failure[0] == 0:
            failure[0] = call_c(addresses[6], (addresses[8], addresses[7], addresses[9]))
            for i in range(addresses[4]):
                copy_row(table, rows[i], received, i, addresses[2])

    return finish


@cache
def gather_kernel():
    """Partial sums of all ranks come together: each block has one rank, and the others add zeros, which is exact.

    Addresses: failure, partial sums, how many each block has, number of blocks in all, blocks that are elsewhere,
    their number, MPI_Allreduce, and its arguments: in place, double, sum, all ranks.
    """
    digest = source_digest()

    @kernel
    def gather(addresses, first, last):
        _ = digest  # part of the cache key
        failure, partial, elsewhere = ints_at(addresses[0]), doubles_at(addresses[1]), ints_at(addresses[4])
        lines, blocks = addresses[2], addresses[3]
        if first < last and failure[0] == 0:
            for line in range(lines):
                for i in range(addresses[5]):
                    partial[line * blocks + elsewhere[i]] = 0.0
            count, kind, operation = lines * blocks, addresses[8], addresses[9]
            failure[0] = call_c(addresses[6], (addresses[7], addresses[1], count, kind, operation, addresses[10]))

    return gather
