"""Eight values that behave like one number, and the functions that constraints may call.

A function written with + - * / < > and the names below runs unchanged on
- `f32x8`, one AVX register (or two NEON registers), in the CPU sweeps, and `f64x8`, twice as wide,
- float32, in scalar code and in a CUDA thread,
- NumPy arrays and Python floats, in the tests and the reference backend.

Only public extension points of Numba are used here: `types.Type`, `register_model`, `@intrinsic`, `@overload`.
"""

import math
import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_jitable, register_model

WIDTH = 8
FLOATS = ir.VectorType(ir.FloatType(), WIDTH)
BITS = ir.VectorType(ir.IntType(1), WIDTH)
# Only fused multiply-add is allowed. `fast` is not quicker here (measured), and its "no NaN, no infinity"
# would make the discarded side of a `select` undefined.
FLAGS = ("contract",)


class LanesType(types.Type):
    def __init__(self, number, element):
        self.number, self.vector = number, ir.VectorType(element, WIDTH)
        self.suffix = f"v{WIDTH}f{number.bitwidth}"  # in the names of LLVM's functions
        super().__init__(name=f"f{number.bitwidth}x{WIDTH}")


class MaskType(types.Type):
    def __init__(self):
        super().__init__(name=f"mask{WIDTH}")


f32x8 = LanesType(types.float32, ir.FloatType())
f64x8 = LanesType(types.float64, ir.DoubleType())
mask8 = MaskType()


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    def __init__(self, manager, frontend_type):
        super().__init__(manager, frontend_type, frontend_type.vector)


@register_model(MaskType)
class MaskModel(models.PrimitiveModel):
    def __init__(self, manager, frontend_type):
        super().__init__(manager, frontend_type, BITS)


def shuffle(builder, a, b, pattern):
    """Pick elements of two vectors: index i is a[i], index len(a) + i is b[i]."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(pattern)), pattern))


def as_lanes(context, builder, value, number_type, lanes=f32x8):
    """The same number in every lane; a value that is lanes already comes back as it is."""
    if number_type == lanes:
        return value
    scalar = context.cast(builder, value, number_type, lanes.number)
    undefined = ir.Constant(lanes.vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    return shuffle(builder, first, undefined, [0] * WIDTH)


def is_lanes_operation(*operands):
    """At least one operand is lanes, of one kind, and the others are numbers, which are spread over the lanes."""
    kind = lanes_among(operands)
    return kind is not None and all(ty == kind or isinstance(ty, types.Number) for ty in operands)


def lanes_among(operands):
    """The kind of lanes that some operands have, or None."""
    return next((ty for ty in operands if isinstance(ty, LanesType)), None)


def _lanes_operator(python_operators, result, emit):
    """Give Python operators a meaning for lanes; `emit(builder, *vectors)` writes the instruction.

    `result` is its type, None for lanes as they come in.
    """

    @intrinsic
    def instruction(typing_context, a, b):
        def generate(context, builder, signature, args):
            kind = lanes_among(signature.args)
            return emit(builder, *(as_lanes(context, builder, v, ty, kind) for v, ty in zip(args, signature.args)))

        return (result or lanes_among((a, b)))(a, b), generate

    for python_operator in python_operators:

        @overload(python_operator)
        def resolve(a, b):
            if is_lanes_operation(a, b):
                return lambda a, b: instruction(a, b)


_lanes_operator([operator.add, operator.iadd], None, lambda builder, a, b: builder.fadd(a, b, flags=FLAGS))
_lanes_operator([operator.sub, operator.isub], None, lambda builder, a, b: builder.fsub(a, b, flags=FLAGS))
_lanes_operator([operator.mul, operator.imul], None, lambda builder, a, b: builder.fmul(a, b, flags=FLAGS))
_lanes_operator([operator.truediv, operator.itruediv], None, lambda builder, a, b: builder.fdiv(a, b, flags=FLAGS))
_lanes_operator([operator.lt], mask8, lambda builder, a, b: builder.fcmp_ordered("<", a, b))
_lanes_operator([operator.le], mask8, lambda builder, a, b: builder.fcmp_ordered("<=", a, b))
_lanes_operator([operator.gt], mask8, lambda builder, a, b: builder.fcmp_ordered(">", a, b))
_lanes_operator([operator.ge], mask8, lambda builder, a, b: builder.fcmp_ordered(">=", a, b))


@intrinsic
def _both(typing_context, a, b):
    return mask8(a, b), lambda context, builder, signature, args: builder.and_(*args)


@overload(operator.and_)
def _mask_and(a, b):
    if a == b == mask8:
        return lambda a, b: _both(a, b)


@intrinsic
def _negate(typing_context, a):
    return a(a), lambda context, builder, signature, args: builder.fneg(args[0])


@overload(operator.neg)
def _lanes_negative(a):
    if isinstance(a, LanesType):
        return lambda a: _negate(a)


# Functions of values. The Python body serves NumPy and plain floats; `scalar_code` is what compiled scalar code runs.
def sqrt(a):
    return np.sqrt(a)


def absolute(a):
    return np.abs(a)


def select(mask, a, b):
    """`a` where the mask holds, else `b`. Both are computed, so neither may trap."""
    return np.where(mask, a, b)


def inverse_root(a):
    """1 / sqrt(a) for 1e-37 < a < 1e38. Lanes of float64 have it to 4e-16: its first half is found in float32."""
    return 1 / np.sqrt(a)


scalar_code = {
    sqrt: lambda a: math.sqrt(a),
    inverse_root: lambda a: 1 / math.sqrt(a),
    absolute: lambda a: math.fabs(a),
    select: lambda mask, a, b: a if mask else b,
}


def _lanes_unary(function, llvm_name):
    @intrinsic
    def instruction(typing_context, a):
        def generate(context, builder, signature, args):
            function = ir.FunctionType(a.vector, [a.vector])
            return builder.call(builder.module.declare_intrinsic(f"{llvm_name}.{a.suffix}", (), function), args)

        return a(a), generate

    @overload(function)
    def resolve(a):
        return (lambda a: instruction(a)) if isinstance(a, LanesType) else scalar_code[function]


_lanes_unary(sqrt, "llvm.sqrt")
_lanes_unary(absolute, "llvm.fabs")


@intrinsic
def _inverse_root(typing_context, a):
    """A root and a division of float64 take longer than those of float32 and two steps of Newton's."""

    def generate(context, builder, signature, args):
        def spread_out(kind, number):
            return ir.Constant(kind, [number] * WIDTH)

        function = ir.FunctionType(FLOATS, [FLOATS])
        root = builder.module.declare_intrinsic(f"llvm.sqrt.{f32x8.suffix}", (), function)
        rough = args[0] if a == f32x8 else builder.fptrunc(args[0], FLOATS)
        rough = builder.fdiv(spread_out(FLOATS, 1.0), builder.call(root, [rough]))
        if a == f32x8:
            return rough
        y, halved = builder.fpext(rough, a.vector), builder.fmul(args[0], spread_out(a.vector, 0.5))
        for _ in range(2):
            product = builder.fmul(builder.fmul(halved, y), y, flags=FLAGS)
            missing = builder.fsub(spread_out(a.vector, 0.5), product, flags=FLAGS)
            y = builder.fadd(y, builder.fmul(y, missing, flags=FLAGS), flags=FLAGS)
        return y

    return a(a), generate


@overload(inverse_root)
def _inverse_root_of(a):
    return (lambda a: _inverse_root(a)) if isinstance(a, LanesType) else scalar_code[inverse_root]


@intrinsic
def _blend(typing_context, mask, a, b):
    kind = lanes_among((a, b)) or f32x8

    def generate(context, builder, signature, args):
        a, b = (as_lanes(context, builder, v, ty, kind) for v, ty in zip(args[1:], signature.args[1:]))
        return builder.select(args[0], a, b)

    return kind(mask, a, b), generate


@overload(select)
def _select(mask, a, b):
    return (lambda mask, a, b: _blend(mask, a, b)) if mask == mask8 else scalar_code[select]


def all_lanes(mask):
    """Whether the mask holds everywhere. Only to spare work: what a lane gets must not depend on its company."""
    return bool(np.all(mask))


@intrinsic
def _all_bits(typing_context, mask):
    def generate(context, builder, signature, args):
        bits = builder.bitcast(args[0], ir.IntType(WIDTH))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(WIDTH), (1 << WIDTH) - 1))

    return types.boolean(mask), generate


@overload(all_lanes)
def _all_lanes(mask):
    return (lambda mask: _all_bits(mask)) if mask == mask8 else (lambda mask: mask)


@intrinsic
def lane_bits(typing_context, mask):
    """A whole number with bit i set where the mask holds in lane i."""

    def generate(context, builder, signature, args):
        return builder.zext(builder.bitcast(args[0], ir.IntType(WIDTH)), ir.IntType(64))

    return types.int64(mask), generate


@intrinsic
def lowest_bit(typing_context, bits):
    """The number of the lowest bit set; there must be one."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def multiply_add(a, b, c):
    """a * b + c, rounded the same way wherever it stands: the compiler has no choice left."""
    return a * b + c


scalar_code[multiply_add] = lambda a, b, c: a * b + c


@intrinsic
def _multiply_add(typing_context, a, b, c):
    kind = lanes_among((a, b, c))

    def generate(context, builder, signature, args):
        operands = [as_lanes(context, builder, v, ty, kind) for v, ty in zip(args, signature.args)]
        function = ir.FunctionType(kind.vector, [kind.vector] * 3)
        return builder.call(builder.module.declare_intrinsic(f"llvm.fmuladd.{kind.suffix}", (), function), operands)

    return kind(a, b, c), generate


@overload(multiply_add)
def _multiply_add_of(a, b, c):
    return (lambda a, b, c: _multiply_add(a, b, c)) if is_lanes_operation(a, b, c) else scalar_code[multiply_add]


def _reduction(combine):
    """One number from eight lanes, always combined in the same order."""

    @intrinsic
    def reduce(typing_context, a):
        def generate(context, builder, signature, args):
            vector = args[0]
            for half in (4, 2, 1):
                vector = combine(
                    builder, vector, shuffle(builder, vector, vector, [(i + half) % WIDTH for i in range(WIDTH)])
                )
            return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))

        return a.number(a), generate

    return reduce


sum_of_lanes = _reduction(lambda builder, a, b: builder.fadd(a, b))
largest_lane = _reduction(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@intrinsic
def spread(typing_context, number):
    """The same number in all eight lanes."""
    return f32x8(number), lambda context, builder, signature, args: as_lanes(
        context, builder, args[0], signature.args[0]
    )


@intrinsic
def spread_wide(typing_context, number):
    """The same number in all eight lanes of float64."""
    return f64x8(number), lambda context, builder, signature, args: as_lanes(
        context, builder, args[0], signature.args[0], f64x8
    )


@intrinsic
def widened(typing_context, lanes):
    """float32 lanes as float64."""
    return f64x8(lanes), lambda context, builder, signature, args: builder.fpext(args[0], f64x8.vector)


@intrinsic
def narrowed(typing_context, lanes):
    """float64 lanes, rounded to float32."""
    return f32x8(lanes), lambda context, builder, signature, args: builder.fptrunc(args[0], f32x8.vector)


@intrinsic
def first_lanes(typing_context, count):
    """A mask that holds in the first `count` lanes."""

    def generate(context, builder, signature, args):
        numbers = ir.Constant(FLOATS, [float(i) for i in range(WIDTH)])
        return builder.fcmp_ordered("<", numbers, as_lanes(context, builder, args[0], signature.args[0]))

    return mask8(count), generate


value_functions = []


def value_function(function):
    """Let compiled code call a plain Python function of values. It stays a plain function and is always inlined."""
    if function not in value_functions:
        value_functions.append(function)  # a CUDA target registers the same list
        register_jitable(forceinline=True)(function)
    return function


@value_function
def minimum(a, b):
    return select(a < b, a, b)


@value_function
def maximum(a, b):
    return select(a > b, a, b)


PI, HALF_PI, QUARTER_PI = np.float32(np.pi), np.float32(np.pi / 2), np.float32(np.pi / 4)
TAN_PI_8 = np.float32(math.tan(math.pi / 8))
ZERO, ONE = np.float32(0), np.float32(1)
ATAN = tuple(np.float32(c) for c in (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1))


@value_function
def atan2(y, x):
    """Angle of (x, y) in (-pi, pi], error below 3e-7; atan2(0, 0) = 0. Polynomial: Cephes atanf (Moshier)."""
    ax, ay = absolute(x), absolute(y)
    short, long = minimum(ax, ay), maximum(ax, ay)
    # atan(r) = pi/4 + atan((r - 1) / (r + 1)) brings the argument below tan(pi/8), where four terms suffice.
    folded = short > TAN_PI_8 * long
    divisor = select(folded, short + long, long)
    t = select(folded, short - long, short) / select(divisor > ZERO, divisor, ONE)
    s = t * t
    angle = (((ATAN[0] * s + ATAN[1]) * s + ATAN[2]) * s + ATAN[3]) * s * t + t
    angle = angle + select(folded, QUARTER_PI, ZERO)
    angle = select(ay > ax, HALF_PI - angle, angle)
    angle = select(x < ZERO, PI - angle, angle)
    return select(y < ZERO, -angle, angle)
