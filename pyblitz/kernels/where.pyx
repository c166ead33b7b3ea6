"""One of two items, by a mask; see where.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport Pair, Unit, unit_of


cdef inline Unit choose_items(uint8_t c, Unit x, Unit y) noexcept nogil:
    cdef Unit bits
    if Unit is Pair:
        return x if c else y
    else:
        # Without a branch, and in a form that is vectorised.
        bits = <Unit>0 - <Unit>(c != 0)
        return (x & bits) | (y & ~bits)


cdef void where_units(char** args, const intptr_t* dims, const intptr_t* steps,
                      Unit* data) noexcept nogil:
    cdef intptr_t i, n = dims[0], size = sizeof(Unit)
    cdef const uint8_t* mask = <const uint8_t*>args[0]
    cdef const Unit* x = <const Unit*>args[1]
    cdef const Unit* y = <const Unit*>args[2]
    cdef Unit* to = <Unit*>args[3]
    cdef Unit x0 = x[0], y0 = y[0]
    cdef const char* one
    if steps[0] == 1 and steps[3] == size and steps[1] == size and steps[2] == size:
        for i in range(n):
            to[i] = choose_items(mask[i], x[i], y[i])
    elif steps[0] == 1 and steps[3] == size and steps[1] == size and steps[2] == 0:
        for i in range(n):
            to[i] = choose_items(mask[i], x[i], y0)
    elif steps[0] == 1 and steps[3] == size and steps[1] == 0 and steps[2] == size:
        for i in range(n):
            to[i] = choose_items(mask[i], x0, y[i])
    elif steps[0] == 1 and steps[3] == size and steps[1] == 0 and steps[2] == 0:
        for i in range(n):
            to[i] = choose_items(mask[i], x0, y0)
    else:
        for i in range(n):
            one = args[1] + i * steps[1] if mask[i * steps[0]] else args[2] + i * steps[2]
            (<Unit*>(args[3] + i * steps[3]))[0] = (<const Unit*>one)[0]


cdef void where_bytes(char** args, const intptr_t* dims, const intptr_t* steps,
                      void* data) noexcept nogil:
    cdef intptr_t i, size = <intptr_t>data
    cdef const char* one
    for i in range(dims[0]):
        one = args[1] + i * steps[1] if args[0][i * steps[0]] else args[2] + i * steps[2]
        memcpy(args[3] + i * steps[3], one, size)


cdef loop_fn where_loop(intptr_t itemsize, intptr_t bits) noexcept nogil:
    cdef int unit = unit_of(itemsize, bits)
    if unit == 8:
        return <loop_fn>(where_units[uint64_t])
    if unit == 4:
        return <loop_fn>(where_units[uint32_t])
    if unit == 1:
        return <loop_fn>(where_units[uint8_t])
    if unit == 2:
        return <loop_fn>(where_units[uint16_t])
    if unit == 16:
        return <loop_fn>(where_units[Pair])
    return where_bytes
