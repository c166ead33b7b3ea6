"""What library.py compares, as loops that Numba compiles and runs on all its threads.

Written as a user who wants them fast would: one pass each, blocks where a sum has to be
carried on, and fastmath where the order of a sum is free.  ``escape_kernel`` is the scalar
function that pyblitz maps, ``mandelbrot`` Numba's own loop over the same function.
"""

from __future__ import annotations

import numpy as np
from numba import cfunc, njit, prange

BLOCKS = 8  # of a pass that counts first and writes then
LIMIT = 500  # steps of Mandelbrot

compiled = njit(parallel=True, cache=True)
fast = njit(parallel=True, cache=True, fastmath=True)


@compiled
def expression(a, b):
    return a * b + np.sin(a) * 2 - b**2


@fast
def squares(a):
    m = 0.0
    for i in prange(a.size):
        m += a[i]
    m /= a.size
    s = 0.0
    for i in prange(a.size):
        s += (a[i] - m) ** 2
    return s


@fast
def sum_of(a):
    s = a[0] - a[0]
    for i in prange(a.size):
        s += a[i]
    return s


@fast
def least(a):
    m = a[0]
    for i in prange(a.size):
        m = min(m, a[i])
    return m


@fast
def most(a):
    m = a[0]
    for i in prange(a.size):
        m = max(m, a[i])
    return m


@fast
def dot(a, b):
    s = a[0] - a[0]
    for i in prange(a.size):
        s += a[i] * b[i]
    return s


@compiled
def argmin(a):
    where = np.zeros(BLOCKS, np.int64)
    for k in prange(BLOCKS):
        lo, hi = k * a.size // BLOCKS, (k + 1) * a.size // BLOCKS
        at = lo
        m = a[lo]
        for i in range(lo, hi):
            if a[i] < m:
                m = a[i]
                at = i
        where[k] = at
    at = where[0]
    for k in range(1, BLOCKS):
        if a[where[k]] < a[at]:
            at = where[k]
    return at


@compiled
def any_of(a):
    hit = 0
    for i in prange(a.size):
        hit += a[i] != 0
    return hit != 0


@compiled
def find_first(a, value):
    where = np.full(BLOCKS, -1, np.int64)
    for k in prange(BLOCKS):
        for i in range(k * a.size // BLOCKS, (k + 1) * a.size // BLOCKS):
            if a[i] == value:
                where[k] = i
                break
    for k in range(BLOCKS):
        if where[k] >= 0:
            return where[k]
    return -1


@compiled
def filtered(a, mask):
    counts = np.zeros(BLOCKS + 1, np.int64)
    for k in prange(BLOCKS):
        c = 0
        for i in range(k * a.size // BLOCKS, (k + 1) * a.size // BLOCKS):
            c += mask[i]
        counts[k + 1] = c
    for k in range(BLOCKS):
        counts[k + 1] += counts[k]
    out = np.empty(counts[BLOCKS], a.dtype)
    for k in prange(BLOCKS):
        o = counts[k]
        for i in range(k * a.size // BLOCKS, (k + 1) * a.size // BLOCKS):
            if mask[i]:
                out[o] = a[i]
                o += 1
    return out


@compiled
def cumsum(a):
    before = np.zeros(BLOCKS + 1, a.dtype)
    for k in prange(BLOCKS):
        s = before[0]
        for i in range(k * a.size // BLOCKS, (k + 1) * a.size // BLOCKS):
            s += a[i]
        before[k + 1] = s
    for k in range(BLOCKS):
        before[k + 1] += before[k]
    out = np.empty_like(a)
    for k in prange(BLOCKS):
        s = before[k]
        for i in range(k * a.size // BLOCKS, (k + 1) * a.size // BLOCKS):
            s += a[i]
            out[i] = s
    return out


@compiled
def take(a, index):
    out = np.empty(index.size, a.dtype)
    for i in prange(index.size):
        out[i] = a[index[i]]
    return out


@compiled
def where(c, x, y):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = x[i] if c[i] else y[i]
    return out


@compiled
def bincount(a, bins):
    parts = np.zeros((BLOCKS, bins), np.int64)
    for k in prange(BLOCKS):
        for i in range(k * a.size // BLOCKS, (k + 1) * a.size // BLOCKS):
            parts[k, a[i]] += 1
    return parts.sum(axis=0)


@compiled
def histogram(a, bins):
    """Over [0, 1], which is known to hold all."""
    parts = np.zeros((BLOCKS, bins), np.int64)
    for k in prange(BLOCKS):
        for i in range(k * a.size // BLOCKS, (k + 1) * a.size // BLOCKS):
            parts[k, min(int(a[i] * bins), bins - 1)] += 1
    return parts.sum(axis=0)


@compiled
def searchsorted(a, keys):
    out = np.empty(keys.size, np.int64)
    for i in prange(keys.size):
        out[i] = np.searchsorted(a, keys[i])
    return out


@njit(cache=True)
def escape(cx, cy):
    """Steps until the orbit of the point leaves the circle of radius 2."""
    x = y = xx = yy = 0.0
    k = 0
    while k < LIMIT and xx + yy <= 4:
        y = 2 * x * y + cy
        x = xx - yy + cx
        xx = x * x
        yy = y * y
        k += 1
    return float(k)


@cfunc("float64(float64, float64)")
def escape_kernel(cx, cy):
    return escape(cx, cy)


@compiled
def mandelbrot(cx, cy):
    """Row by row; Numba gives each thread one block of rows unless told otherwise."""
    out = np.empty_like(cx)
    for i in prange(cx.shape[0]):
        for j in range(cx.shape[1]):
            out[i, j] = escape(cx[i, j], cy[i, j])
    return out
