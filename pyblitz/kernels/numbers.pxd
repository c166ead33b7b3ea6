"""What a number is, and which comes first.

One list of the kinds of numbers and of the C types that kernels are compiled for.  And one order,
NumPy's: what it is for each kind, how the bits of an item become a key whose unsigned order it is,
and which items come last in both directions.
"""
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t)

# Each has NumPy's letter and its size in bits, and the machine's byte order.
cdef enum NumberKind:
    NUMBER_I8
    NUMBER_I16
    NUMBER_I32
    NUMBER_I64
    NUMBER_U8           # bools, too
    NUMBER_U16
    NUMBER_U32
    NUMBER_U64
    NUMBER_F32
    NUMBER_F64
    # Those above have a C type in `Number`.
    NUMBER_TIME         # 8 bytes, signed; the least value is NaT: no time
    NUMBER_F16
    NUMBER_C64          # complex
    NUMBER_C128
    NO_NUMBER

ctypedef fused Integer:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused Real:
    float
    double

ctypedef fused Number:
    Integer
    Real

# Numbers of 4 or 8 bytes.
ctypedef fused Wide:
    int32_t
    uint32_t
    int64_t
    uint64_t
    float
    double

# The bits of a number of any size.
ctypedef fused Raw:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

# The bits of a wide number.
ctypedef fused Word:
    uint32_t
    uint64_t

# The bits of a float.
ctypedef fused FloatBits:
    uint16_t
    uint32_t
    uint64_t

# ---- which comes first

# How the bits of an item become its key, a word whose unsigned order is that of the items.
cdef enum KeyKind:
    KEY_UNSIGNED    # bools, too
    KEY_SIGNED
    KEY_FLOAT       # IEEE 754: zeros are equal, and so are NaNs, which come last
    KEY_TIME        # signed; the least value, NaT, comes last
    KEY_BYTES       # up to 8 bytes, compared as such
    KEY_CHARS       # one or two characters of 4 bytes

# `like`: any word of the size that is meant.
cdef inline Raw sign_bit(Raw like) noexcept nogil:
    return <Raw>(<Raw>1 << (8 * sizeof(Raw) - 1))

cdef inline Raw infinity(Raw like) noexcept nogil:
    """The bits of plus infinity.  A float whose other bits than the sign are more is a NaN."""
    if Raw is uint64_t:
        return 0x7FF0000000000000u
    elif Raw is uint32_t:
        return 0x7F800000u
    else:
        return <Raw>0x7C00

cdef inline Raw usual_nan(Raw like) noexcept nogil:
    """The bits of the NaN that operations give."""
    cdef Raw inf = infinity(like)
    return inf | (inf & -inf) >> 1

cdef inline Raw canonical(Raw bits) noexcept nogil:
    """Of a float: the same bits for both zeros, and for all NaNs."""
    cdef Raw magnitude = bits & ~sign_bit(bits)
    bits = bits if magnitude != 0 else 0
    return bits if magnitude <= infinity(bits) else usual_nan(bits)

cdef inline Raw signed_key(Raw bits) noexcept nogil:
    return bits ^ sign_bit(bits)

cdef inline Raw time_key(Raw bits) noexcept nogil:
    return (bits ^ sign_bit(bits)) - 1      # the least wraps to the greatest

cdef inline Raw float_key(Raw bits) noexcept nogil:
    """Up or down from the middle by the magnitude, so that zeros are equal."""
    cdef Raw sign = sign_bit(bits), magnitude = bits & ~sign
    if magnitude > infinity(bits):
        return ~<Raw>0
    return sign - magnitude if bits & sign else sign + magnitude

cdef inline Raw last_key(KeyKind kind, Raw like) noexcept nogil:
    """The greatest key of a number; those beyond are of NaN and NaT."""
    if kind == KEY_FLOAT:
        return sign_bit(like) + infinity(like)
    return ~<Raw>0 - (kind == KEY_TIME)

cdef inline Raw turned(Raw key, Raw last) noexcept nogil:
    """The key for descending order: that of NaN or NaT stays where it is."""
    return last - key if key <= last else key

cdef inline Raw key_of(Raw bits, KeyKind kind) noexcept nogil:
    """Of a number."""
    if kind == KEY_SIGNED:
        return signed_key(bits)
    if kind == KEY_TIME:
        return time_key(bits)
    return float_key(bits) if kind == KEY_FLOAT else bits
