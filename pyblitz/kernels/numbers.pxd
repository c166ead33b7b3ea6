"""What a number is: one list of kinds, and of the C types that kernels are compiled for."""
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t)

# As NumPy names them, a letter and a size (here in bits), in the machine's byte order.
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

# The bits of a number.
ctypedef fused Raw:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

# Those of wide ones.
ctypedef fused Word:
    uint32_t
    uint64_t
