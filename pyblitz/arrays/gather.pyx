# cython: wraparound=True, boundscheck=True
"""Gathering and scattering: ``par_take``, ``par_put``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport axis_of, may_overlap, run, run_fn
from pyblitz.arrays.copy cimport (
    cast_to, contiguous, copy_into, movable, native_row, pays_to_move, shape_of)
from pyblitz.arrays.front cimport PUT_NS, as_array, left, left_dtype, pays, too_small
from pyblitz.arrays.front import operation
from pyblitz.kernels.gather cimport (
    INDEX_CLIP, INDEX_RAISE, INDEX_READY, INDEX_WRAP, Take, index_is_ready, index_run, take_run)
from pyblitz.kernels.put cimport PUT_CACHED_BYTES, Put, Record, put_ascending, put_few, put_run
from pyblitz.runtime.atomic cimport u32_load_relaxed, u32_store_relaxed
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

cdef dict index_modes = {"raise": INDEX_RAISE, "wrap": INDEX_WRAP, "clip": INDEX_CLIP}


cdef object as_index(ndarray x):
    """As signed integers of 4 or 8 bytes in C order; None: NumPy says what is wrong with them."""
    if x.dtype.kind not in "biu" or not np.can_cast(x.dtype, np.int64, "safe"):
        return None
    if x.dtype.kind != "i" or cnp.PyArray_ITEMSIZE(x) < 4:
        x = cast_to(x, np.dtype(np.int64))
    return native_row(x)


cdef int set_index(Take* t, ndarray index, str mode) except -1:
    t.index = cnp.PyArray_DATA(index)
    t.index_size = cnp.PyArray_ITEMSIZE(index)
    t.mode = index_modes[mode]
    t.count = cnp.PyArray_SIZE(index)
    return 0


cdef struct Check:
    Take* take
    int64_t* ready


cdef int run_check(Worker* w, void* ctx) noexcept nogil:
    return index_run(w, (<Check*>ctx).take, (<Check*>ctx).ready)


cdef bint index_fits(Take* t, int64_t* ready) except -1:
    """Checks the indices, and writes them out ready, unless it is NULL."""
    cdef Check c
    c.take = t
    c.ready = ready
    run(run_check, &c, "the indices")
    return u32_load_relaxed(&t.bad) == 0


cdef object take_rows(ndarray a, ndarray index, int axis, ndarray out, str mode):
    """None: an index is out of bounds; a given `out` was not touched."""
    cdef Take t
    cdef int d
    cdef ndarray ready, target
    set_index(&t, index, mode)
    t.outer = 1
    for d in range(axis):
        t.outer *= cnp.PyArray_DIM(a, d)
    t.length = cnp.PyArray_DIM(a, axis)
    t.itemsize = cnp.PyArray_ITEMSIZE(a)
    for d in range(axis + 1, cnp.PyArray_NDIM(a)):
        t.itemsize *= cnp.PyArray_DIM(a, d)
    if t.outer > 1:
        # They are used again and again.
        ready = ready_indices(&t)
        if ready is None:
            return None
    elif out is not None and t.mode == INDEX_RAISE and not index_fits(&t, NULL):
        return None
    shape = shape_of(a)
    target = np.empty(shape[:axis] + shape_of(index) + shape[axis + 1:], a.dtype) if out is None else out
    t.src = <const char*>cnp.PyArray_DATA(a)
    t.dst = <char*>cnp.PyArray_DATA(target)
    run(<run_fn>take_run, &t, "the gathering")
    return None if u32_load_relaxed(&t.bad) else target


@operation("a indices out", np.take, method="take", gives="same")
def par_take(a, indices, axis=None, out=None, mode="raise"):
    """The items at given indices along an axis, on all cores: ``np.take``.

    Parameters
    ----------
    indices : array_like of int
        Negative ones count from the end.
    axis : int, optional
        None: of the flattened array.
    out : ndarray, optional
        Where the result goes, of its shape, and of a dtype that can be cast to it.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    IndexError
        An index is out of bounds; ``out`` is as it was.
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.take`` raises for the same mistake.

    Notes
    -----
    O(m) work for m indices, items asked for before they are needed (software
    prefetch).  An ``a`` that is not contiguous is copied first, as in NumPy.

    Examples
    --------
    >>> pb.par_take(np.array([10, 20, 30]), [2, 0, -1])
    array([30, 10, 30])
    """
    cdef ndarray x, index, target = None
    cdef int along = 0
    cdef int64_t bytes
    if type(indices) is int:
        return too_small
    x, given = as_array(a), as_array(indices)
    bytes = cnp.PyArray_SIZE(given) * cnp.PyArray_ITEMSIZE(x)
    if axis is not None:
        if cnp.PyArray_NDIM(x) == 0:
            x = x.reshape(1)
        along = axis_of(axis, cnp.PyArray_NDIM(x))
        # Items are rows, and there are rows of them.
        if cnp.PyArray_DIM(x, along) > 0:
            bytes *= cnp.PyArray_SIZE(x) // cnp.PyArray_DIM(x, along)
    if not pays_to_move(bytes):
        return too_small
    if type(mode) is not str or mode not in index_modes or cnp.PyArray_SIZE(x) == 0:
        return left("arguments that it may refuse")
    if not movable(x.dtype):
        return left_dtype(x.dtype)
    made = as_index(given)
    if made is None:
        return left("indices that are no integers")
    index = made
    if out is not None:
        target = out
        shape = shape_of(x)
        if (shape_of(target) != (shape_of(index) if axis is None else
                                 shape[:along] + shape_of(index) + shape[along + 1:])
                or not cnp.PyArray_ISWRITEABLE(target) or not np.can_cast(target.dtype, x.dtype, "safe")):
            return left("an out that it may refuse")
        if (target.dtype != x.dtype or not cnp.PyArray_IS_C_CONTIGUOUS(target)
                or may_overlap(target, x) or may_overlap(target, index)):
            # To another array first, as NumPy does.
            target = None
    x = contiguous(x)
    if axis is None:
        x = x.reshape(-1)
    result = take_rows(x, index, along, target, mode)
    if result is None:
        return left("an index out of bounds")
    if out is not None and target is None:
        copy_into(out, result, "unsafe")
        return out
    return result


cdef struct Ascending:
    Put* put
    bint done


cdef int run_ascending(Worker* w, void* ctx) noexcept nogil:
    return put_ascending(w, (<Ascending*>ctx).put, &(<Ascending*>ctx).done)


cdef void set_put(Put* p, ndarray x, const Take* indices, ndarray values) noexcept:
    p.dst = <char*>cnp.PyArray_DATA(x)
    p.length = cnp.PyArray_SIZE(x)
    p.raw = indices.index
    p.index_size = indices.index_size
    p.count = indices.count
    u32_store_relaxed(&p.bad, 0)
    p.values = <const char*>cnp.PyArray_DATA(values)
    p.period = cnp.PyArray_SIZE(values)
    p.itemsize = cnp.PyArray_ITEMSIZE(x)


cdef bint put_items(ndarray x, Take* indices, ndarray values) except -1:
    """Into C order, at checked indices; values of the same dtype, repeated.  False: another thread has
    written an index that is out of bounds."""
    cdef Put p
    cdef Ascending a
    cdef ndarray ready, records
    set_put(&p, x, indices, values)
    a.put = &p
    run(run_ascending, &a, "the scattering")
    if a.done:
        return u32_load_relaxed(&p.bad) == 0
    if p.length * p.itemsize > PUT_CACHED_BYTES:
        if indices.mode != INDEX_READY:
            # They are read twice.
            ready = ready_indices(indices)
            if ready is None:
                return False
        p.index = <const int64_t*>indices.index
        records = np.empty(2 * p.count, np.int64)
        p.records = <Record*>cnp.PyArray_DATA(records)
    run(<run_fn>put_run, &p, "the scattering")
    return u32_load_relaxed(&p.bad) == 0


cdef ndarray ready_indices(Take* t):
    """What they are taken from from now on; None: one is out of bounds."""
    ready = np.empty(t.count, np.int64)
    if not index_fits(t, <int64_t*>cnp.PyArray_DATA(ready)):
        return None
    t.index = cnp.PyArray_DATA(ready)
    t.index_size = 8
    t.mode = INDEX_READY
    return ready


@operation("a! ind", np.put)
def par_put(a, ind, v, mode="raise"):
    """Sets the items at given indices of the flattened array, on all cores:
    ``np.put``.

    Parameters
    ----------
    a : ndarray
        What is changed.
    ind : array_like of int
        Negative ones count from the end.  Of equal ones the last wins.
    v : array_like
        The values, repeated as often as needed.

    Raises
    ------
    IndexError
        An index is out of bounds; nothing was written.
    TypeError, ValueError
        What ``np.put`` raises for the same mistake.

    Notes
    -----
    O(m) work for m indices.  Rising indices are shared as they are.  Others are first
    distributed, in their order, to parts of ``a`` that fit into a cache; then each
    part is written by one thread, so the last of equal indices wins.  Into an ``a`` of
    up to 16 MiB one thread writes indices that do not rise, and up to 2,000 indices.
    Extra memory: 24 bytes for each index if ``a`` is larger than 16 MiB and the indices do
    not rise; 8 for each if ``mode`` is not "raise"; and a copy of indices and values that
    are not contiguous or of another dtype.  An ``a`` that is not in C order is copied there
    and back, as in NumPy.

    Examples
    --------
    >>> x = np.zeros(4)
    >>> pb.par_put(x, [1, 3, 1], [1.0, 2.0, 3.0])
    >>> x
    array([0., 3., 0., 2.])
    """
    cdef ndarray x, index, values, ready, row
    cdef Take t
    cdef Put p
    cdef bint few
    if (not cnp.PyArray_CheckExact(a) or type(mode) is not str or mode not in index_modes
            or not cnp.PyArray_ISWRITEABLE(<ndarray>a) or cnp.PyArray_SIZE(<ndarray>a) == 0):
        return left("arguments that it may refuse")
    x = a
    made = as_index(np.asarray(ind))
    if made is None:
        return left("indices that are no integers")
    index = made
    set_index(&t, index, mode)
    t.length = cnp.PyArray_SIZE(x)
    # As np.put does: any cast of an array; a list's numbers must fit.
    values = v if cnp.PyArray_CheckExact(v) else np.array(v, x.dtype)
    if cnp.PyArray_SIZE(values) == 0:
        return left("nothing to put")
    few = not pays(t.count, PUT_NS)
    if few or not movable(x.dtype):
        # np.put would find a bad index in the middle of its work.
        if t.mode == INDEX_RAISE:
            fits = index_is_ready(&t) if few else index_fits(&t, NULL)
            if not fits:
                raise out_of_bounds(index, t.length)
        if few and (t.mode == INDEX_RAISE and movable(x.dtype) and values.dtype == x.dtype and cnp.PyArray_ISCARRAY(x)
                    and cnp.PyArray_ISCARRAY_RO(values) and not may_overlap(x, index) and not may_overlap(x, values)):
            set_put(&p, x, &t, values)
            put_few(&p)
            if u32_load_relaxed(&p.bad):
                raise out_of_bounds(index, t.length)
            return None
        if few:
            # As np.put, without its wrapper in Python.
            return x.put(index, values, mode)
        return left_dtype(x.dtype)
    if t.mode == INDEX_RAISE and not may_overlap(x, index):
        fits = index_fits(&t, NULL)
    else:
        ready = ready_indices(&t)
        fits = ready is not None
    if not fits:
        raise out_of_bounds(index, t.length)
    values = contiguous(cast_to(values, x.dtype))
    if may_overlap(x, values):
        row = np.empty(shape_of(values), x.dtype)
        copy_into(row, values, "no")
        values = row
    # What is not in C order is copied there and back, as by np.put.
    row = contiguous(x)
    if not put_items(row, &t, values):
        raise out_of_bounds(index, t.length)
    if row is not x:
        copy_into(x, row, "no")


cdef object out_of_bounds(ndarray index, int64_t n):
    for i in index.flat:
        if not -n <= i < n:
            return IndexError(f"index {i} is out of bounds for axis 0 with size {n}")
    # Another thread has written a good one over it.
    return IndexError(f"an index was out of bounds for axis 0 with size {n}")
