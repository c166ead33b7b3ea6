"""Calls of ufuncs on plain arrays and numbers, for ``par_map`` and what is made of it.

A ufunc's own inner loop on raw pointers where dtypes match it exactly and the arrays are
aligned; else NumPy on slices, each of which holds the GIL around its loop only.  Values,
memory order, warnings and exceptions are those of the call.
"""
from libc.stdint cimport int64_t
from numpy cimport ufunc

# The result, or what is left to NumPy.
cdef object map_ufunc(ufunc fn, tuple arrays, object out, object where, object dtype,
                      object casting, dict options)
# Whether the arrays have no more than `limit` bytes together, and broadcasting makes no larger result.
cdef bint are_small(tuple arrays, int64_t limit) except -1
