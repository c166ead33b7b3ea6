"""Functions that a user's Cython module would offer in its ``__pyx_capi__``."""
from pyblitz.kernels.map cimport map_grain
from pyblitz.kernels.radix cimport set_paces
from pyblitz.runtime.atomic cimport atomic_i64, i64_fetch_add_relaxed

cdef api double half(double x) noexcept nogil:
    return x / 2


cdef api double complex turn(double complex x) noexcept nogil:
    return x * 1j


cdef api void weighted(const double* a, const double* b, double* o, Py_ssize_t n,
                       void* user) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        o[i] = a[i] + (<double*>user)[0] * b[i]


cdef api int raise_at_seven(Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    if lo <= 7 < hi:
        with gil:
            raise KeyError(7)
    return 0


cdef api int less_of_doubles(const double* a, const double* b, void* user) noexcept nogil:
    return a[0] < b[0]


cdef api bint before_by_magnitude(const double* a, const double* b) noexcept nogil:
    return a[0] * a[0] < b[0] * b[0]


cdef api int less_until(const void* a, const void* b, void* user) except? -1 nogil:
    """Of int64; raises when the number that user points to has sunk to 0."""
    if i64_fetch_add_relaxed(<atomic_i64*>user, -1) <= 0:
        with gil:
            raise ZeroDivisionError("less")
    return (<const long long*>a)[0] < (<const long long*>b)[0]


def grain(bytes_per_item):
    """Items of a leaf of a map."""
    return map_grain(bytes_per_item)


def leaves_take(picoseconds):
    """What a word of 4 or 8 bytes is to take NumPy's sort; 0: as timed."""
    set_paces(picoseconds, picoseconds)
