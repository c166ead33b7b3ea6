"""Casts; see cast.pxd."""
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, intptr_t, uint8_t, uint16_t, uint32_t, uint64_t)
from pyblitz.kernels.numbers cimport Number

ctypedef fused From:
    Number

ctypedef fused To:
    Number


# `steps` and `data` name the types.
cdef void cast_numbers(char** args, const intptr_t* dims, From* steps, To* data) noexcept nogil:
    cdef const intptr_t* step = <const intptr_t*>steps
    cdef const char* a = args[0]
    cdef char* o = args[1]
    cdef intptr_t i, n = dims[0]
    # The others are not in the table.
    if To is float or To is double or not (From is float or From is double):
        if step[0] == sizeof(From) and step[1] == sizeof(To):
            for i in range(n):
                (<To*>o)[i] = <To>(<const From*>a)[i]
        else:
            for i in range(n):
                (<To*>(o + i * step[1]))[0] = <To>(<const From*>(a + i * step[0]))[0]


cdef loop_fn to_number(char kind, int size, From* of) noexcept nogil:
    if kind == b"f":
        return <loop_fn>(cast_numbers[From, double]) if size == 8 else <loop_fn>(cast_numbers[From, float])
    if not (From is float or From is double):
        if kind == b"i":
            if size == 8:
                return <loop_fn>(cast_numbers[From, int64_t])
            if size == 4:
                return <loop_fn>(cast_numbers[From, int32_t])
            return <loop_fn>(cast_numbers[From, int16_t]) if size == 2 else <loop_fn>(cast_numbers[From, int8_t])
        if size == 8:
            return <loop_fn>(cast_numbers[From, uint64_t])
        if size == 4:
            return <loop_fn>(cast_numbers[From, uint32_t])
        return <loop_fn>(cast_numbers[From, uint16_t]) if size == 2 else <loop_fn>(cast_numbers[From, uint8_t])
    else:
        return NULL


cdef void cast_truth(char** args, const intptr_t* dims, const intptr_t* steps, To* data) noexcept nogil:
    """Of bools: any byte but 0 is True, and True is 1."""
    cdef const char* a = args[0]
    cdef char* o = args[1]
    cdef intptr_t i
    for i in range(dims[0]):
        (<To*>(o + i * steps[1]))[0] = (<const uint8_t*>(a + i * steps[0]))[0] != 0


cdef loop_fn truth_loop(char kind, int size) noexcept nogil:
    if kind == b"f":
        return <loop_fn>(cast_truth[double]) if size == 8 else <loop_fn>(cast_truth[float])
    if size == 8:
        return <loop_fn>(cast_truth[uint64_t])
    if size == 4:
        return <loop_fn>(cast_truth[uint32_t])
    return <loop_fn>(cast_truth[uint16_t]) if size == 2 else <loop_fn>(cast_truth[uint8_t])


cdef loop_fn cast_loop(char kind, int size, char to_kind, int to_size) noexcept nogil:
    # Half and extended precision are left to others.
    if (kind == b"f" or to_kind == b"f") and not (
            (kind != b"f" or size == 4 or size == 8) and (to_kind != b"f" or to_size == 4 or to_size == 8)):
        return NULL
    if to_kind != b"f" and to_kind != b"i" and to_kind != b"u":
        return NULL
    if kind == b"b":
        return truth_loop(to_kind, to_size)
    if kind == b"f":
        return to_number(to_kind, to_size, <double*>NULL) if size == 8 else to_number(to_kind, to_size, <float*>NULL)
    if kind == b"i":
        if size == 8:
            return to_number(to_kind, to_size, <int64_t*>NULL)
        if size == 4:
            return to_number(to_kind, to_size, <int32_t*>NULL)
        if size == 2:
            return to_number(to_kind, to_size, <int16_t*>NULL)
        return to_number(to_kind, to_size, <int8_t*>NULL)
    if kind != b"u":
        return NULL
    if size == 8:
        return to_number(to_kind, to_size, <uint64_t*>NULL)
    if size == 4:
        return to_number(to_kind, to_size, <uint32_t*>NULL)
    if size == 2:
        return to_number(to_kind, to_size, <uint16_t*>NULL)
    return to_number(to_kind, to_size, <uint8_t*>NULL)
