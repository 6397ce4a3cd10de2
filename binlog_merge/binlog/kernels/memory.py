"""Unaligned loads, stores and copies on uint8 arrays, without bounds checks.

Byte-wise loops cost a factor of two; these are single machine instructions. The caller has checked the bounds. With
NUMBA_BOUNDSCHECK=1 they are checked here, too, as numba does for `array[i]`, so that tests find missing checks.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic


def pointer_to(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, length: Any) -> Any:
    """Return the LLVM pointer to `array[offset]`, from which `length` bytes will be read or written."""
    made = context.make_array(array_type)(context, builder, array)
    if numba.config.BOUNDSCHECK:
        _check(context, builder, builder.extract_value(made.shape, 0), offset, length)
    return builder.gep(builder.bitcast(made.data, ir.IntType(8).as_pointer()), [offset])


def _check(context: Any, builder: Any, size: Any, offset: Any, length: Any) -> None:
    zero = ir.Constant(ir.IntType(64), 0)
    negative = builder.or_(builder.icmp_signed("<", offset, zero), builder.icmp_signed("<", length, zero))
    behind = builder.icmp_signed(">", builder.add(offset, length), size)
    with builder.if_then(builder.or_(negative, behind), likely=False):
        context.call_conv.return_user_exc(builder, IndexError, ("bytes outside of their buffer",))


def _load(bits: int, result: Any, widened: Any = None, big: bool = False) -> Any:
    """Return the intrinsic that loads `bits` bits; unsigned, and as a wider type if one is given; `big` endian."""

    def typing(_typing_context: Any, array: Any, offset: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = ir.Constant(ir.IntType(64), bits // 8)
            address = pointer_to(context, builder, signature.args[0], args[0], args[1], size)
            loaded = builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()), align=1)
            loaded = builder.bswap(loaded) if big else loaded
            return loaded if widened is None else builder.zext(loaded, ir.IntType(widened.bitwidth))

        return (widened or result)(array, types.int64), generate

    return intrinsic(typing)


def _store(bits: int, value_type: Any) -> Any:
    def typing(_typing_context: Any, array: Any, offset: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = ir.Constant(ir.IntType(64), bits // 8)
            address = pointer_to(context, builder, signature.args[0], args[0], args[1], size)
            builder.store(args[2], builder.bitcast(address, ir.IntType(bits).as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(array, types.int64, value_type), generate

    return intrinsic(typing)


u8 = _load(8, types.uint8, types.int64)
load_16 = _load(16, types.uint16)
load_32 = _load(32, types.uint32)
load_64 = _load(64, types.uint64)
# The same as signed numbers of 64 bits, little endian. As intrinsics: functions would be inlined so often that
# kernels took a tenth longer to compile.
u16 = _load(16, types.uint16, types.int64)
u32 = _load(32, types.uint32, types.int64)
i64 = _load(64, types.int64)
big_64 = _load(64, types.uint64, big=True)
store_8 = _store(8, types.uint8)
store_16 = _store(16, types.uint16)
store_32 = _store(32, types.uint32)
store_64 = _store(64, types.uint64)


@intrinsic
def trailing_zeros(typing_context: Any, number: Any) -> Any:
    """Return how many of a number's lowest bits are 0; the number is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def fetch(typing_context: Any, array: Any, offset: Any) -> Any:
    """Let the processor begin to load the bytes around an offset, which will be read soon; any offset will do."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, args[0])
        address = builder.gep(builder.bitcast(made.data, ir.IntType(8).as_pointer()), [args[1]])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [ir.IntType(8).as_pointer()], kind)
        builder.call(function, [address, number(0), number(3), number(1)])  # to read, keep it, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def copy_64(typing_context: Any, target: Any, target_offset: Any, source: Any, source_offset: Any) -> Any:
    """Copy 64 bytes: loads and stores, where `copy` is a call."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = ir.Constant(ir.IntType(64), 64)
        to = pointer_to(context, builder, signature.args[0], args[0], args[1], size)
        origin = pointer_to(context, builder, signature.args[2], args[2], args[3], size)
        half = ir.VectorType(ir.IntType(64), 4)

        def halves(pointer: Any) -> list[Any]:
            places = [builder.gep(pointer, [ir.Constant(ir.IntType(64), n)]) for n in (0, 32)]
            return [builder.bitcast(place, half.as_pointer()) for place in places]

        loaded = [builder.load(place, align=1) for place in halves(origin)]
        for value, place in zip(loaded, halves(to), strict=True):
            builder.store(value, place, align=1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), generate


@intrinsic
def copy(typing_context: Any, target: Any, target_offset: Any, source: Any, source_offset: Any, length: Any) -> Any:
    """Copy `length` bytes; the ranges do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = pointer_to(context, builder, signature.args[0], args[0], args[1], args[4])
        origin = pointer_to(context, builder, signature.args[2], args[2], args[3], args[4])
        cgutils.raw_memcpy(builder, to, origin, args[4], 1, align=1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@njit(inline="always")
def bit(b: Any, at: int, i: int) -> bool:
    """Return whether a bitmap at `b[at]` has its bit of this number."""
    return (b[at + (i >> 3)] >> (i & 7)) & 1 == 1


@njit(forceinline=True, _nrt=False)
def u48(buffer: Any, offset: int) -> int:
    """Read 6 bytes, little endian: a table id."""
    return np.int64(load_32(buffer, offset)) | (np.int64(load_16(buffer, offset + 4)) << 32)


@njit(forceinline=True, _nrt=False)
def put_u48(buffer: Any, offset: int, value: int) -> None:
    """Write 6 bytes, little endian."""
    store_32(buffer, offset, np.uint32(value & 0xFFFFFFFF))
    store_16(buffer, offset + 4, np.uint16((value >> 32) & 0xFFFF))


@njit(forceinline=True, _nrt=False)
def same_bytes(a: Any, a_offset: int, b: Any, b_offset: int, length: int) -> bool:
    """Compare two byte ranges."""
    i = 0
    while i + 8 <= length:
        if load_64(a, a_offset + i) != load_64(b, b_offset + i):
            return False
        i += 8
    while i < length:
        if a[a_offset + i] != b[b_offset + i]:
            return False
        i += 1
    return True


@njit(forceinline=True, _nrt=False)
def hash_bytes(buffer: Any, offset: int, length: int, seed: int) -> int:
    """Hash a byte range for a lookup table; equality is always confirmed by comparing the bytes."""
    prime = np.uint64(0x9E3779B97F4A7C15)
    value = np.uint64(seed) ^ (np.uint64(length) * prime)
    i = 0
    while i + 8 <= length:
        value = (value ^ load_64(buffer, offset + i)) * prime
        value ^= value >> np.uint64(29)
        i += 8
    while i < length:
        value = (value ^ np.uint64(buffer[offset + i])) * prime
        value ^= value >> np.uint64(31)
        i += 1
    return np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF))
