"""Functions that a user's Cython module would offer in its ``__pyx_capi__``."""

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
