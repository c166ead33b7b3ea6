"""Whether items are members of a set: of a table of bits over a range of integers, or of
a hash table of any keys of 4 or 8 bytes.

Both are built and asked in parallel.  Members that are put in at the same time may lie
in either order, but whether an item is one does not depend on it.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from pyblitz.kernels.numbers cimport NumberKind
from pyblitz.runtime.atomic cimport atomic_i64, atomic_u32
from pyblitz.runtime.pool cimport Worker

# Integers low .. low + range, as they are modulo 2**64.
cdef struct Bits:
    uint64_t low
    uint64_t range          # less than 2**63
    atomic_u32* words       # [range / 32 + 1], zeros

# Items of one kind, in both.
cdef struct Keys:
    NumberKind kind         # of 4 or 8 bytes
    int64_t n               # that are to be put in
    bint crowded            # too many have one hash: it is not to be used
    # -- the rest is its own
    atomic_u32 zero         # whether 0, which stands for none, is a member
    atomic_u32 full
    int shift
    atomic_i64* slots

# 0, ENOMEM, or -1 with an exception set.
cdef int bits_put(Worker* w, Bits* bits, const void* items, int64_t n, NumberKind kind) noexcept nogil
cdef int bits_ask(Worker* w, Bits* bits, const void* items, int64_t n, NumberKind kind,
                  bint invert, uint8_t* out) noexcept nogil
# keys_free is to follow in any case.
cdef int keys_put(Worker* w, Keys* keys, const void* items) noexcept nogil
cdef int keys_ask(Worker* w, Keys* keys, const void* items, int64_t n, bint invert,
                  uint8_t* out) noexcept nogil
cdef void keys_free(Keys* keys) noexcept nogil
