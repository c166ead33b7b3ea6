"""Whether items are members of a set: of a table of bits over a range of integers, or of
a hash table of any keys of 4 or 8 bytes.

Both are built and asked in parallel.  Members that are put in at the same time may lie
in either order, but whether an item is one does not depend on it.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from pyblitz.runtime.atomic cimport atomic_i64, atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef enum MemberKind:
    MEMBER_I8
    MEMBER_U8
    MEMBER_I16
    MEMBER_U16
    MEMBER_I32
    MEMBER_U32
    MEMBER_I64
    MEMBER_U64
    # The rest only of Keys.
    MEMBER_F32
    MEMBER_F64
    MEMBER_TIME     # 8 bytes; the least is no time, which is no member

# Integers low .. low + range, as they are modulo 2**64.
cdef struct Bits:
    uint64_t low
    uint64_t range          # less than 2**63
    atomic_u32* words       # [range / 32 + 1], zeros

# Items of one kind, in both.
cdef struct Keys:
    MemberKind kind         # of 4 or 8 bytes
    int64_t n               # that are to be put in
    bint crowded            # too many have one hash: it is not to be used
    # -- the rest is its own
    atomic_u32 zero         # whether 0, which stands for none, is a member
    atomic_u32 full
    int shift
    atomic_i64* slots

# 0, ENOMEM, or -1 with an exception set.
cdef int bits_put(Worker* w, Bits* bits, const void* items, int64_t n, MemberKind kind) noexcept nogil
cdef int bits_ask(Worker* w, Bits* bits, const void* items, int64_t n, MemberKind kind,
                  bint invert, uint8_t* out) noexcept nogil
# keys_free is to follow in any case.
cdef int keys_put(Worker* w, Keys* keys, const void* items) noexcept nogil
cdef int keys_ask(Worker* w, Keys* keys, const void* items, int64_t n, bint invert,
                  uint8_t* out) noexcept nogil
cdef void keys_free(Keys* keys) noexcept nogil
