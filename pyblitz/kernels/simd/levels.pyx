"""The choice of a level; see levels.pxd."""

cdef extern from "pyblitz/kernels/simd/kernels.h" nogil:
    const Kernels* levels "pb_levels"
    int LEVELS "PB_LEVELS"
    int best_level "pb_best_level"()
    void prepare_orders "pb_prepare_orders"()


cdef int best = best_level()

prepare_orders()

simd = levels[best]


def names():
    """Of the levels that this processor has, the lowest one first."""
    return [levels[i].name.decode() for i in range(best + 1)]


def chosen():
    return simd.name.decode()


def choose(name):
    """Before any sort: what was timed is not timed anew.  KeyError: there is no such level here."""
    global simd
    simd = levels[dict(zip(names(), range(best + 1), strict=True))[name]]
