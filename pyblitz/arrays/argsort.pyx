# cython: wraparound=True, boundscheck=True
"""Sorted orders."""
import numpy as np


cdef object sorting_order(list keys, bint descending):
    for key in keys:
        if key.dtype.kind not in "biufcmMSU":
            return None
    if not descending:
        return np.lexsort(keys[::-1])
    n = keys[0].size
    return n - 1 - np.lexsort([key[::-1] for key in keys[::-1]])[::-1]
