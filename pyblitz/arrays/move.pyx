# cython: wraparound=True, boundscheck=True
"""Moving items: ``par_filter``, ``par_partition_by``, ``par_flatnonzero``,
``par_take``, ``par_put``, ``par_where``, ``par_concatenate``, ``par_flatten``,
``par_repeat``, ``par_copy``."""
import operator

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, intptr_t, uint8_t
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport (
    SLICE_ITEMS, Slices, at, broadcast_shape, check, fill_map, is_plain,
    longest_axis, make_outputs, may_overlap, report_flags, run_map)
from pyblitz.arrays.compiled cimport is_compiled
from pyblitz.arrays.evaluate cimport apply, collect
from pyblitz.arrays.find import predicate_mask
from pyblitz.arrays.nodes cimport node_of
from pyblitz.kernels.map cimport MAP_DIMS, Map, map_of_loop
from pyblitz.kernels.move cimport (
    INDEX_CLIP, INDEX_RAISE, INDEX_READY, INDEX_WRAP, Join, Put, Record, Repeat, Select, Take,
    Unravel, copy_run, ends_run, index_is_ready, index_run, join_run, map_bits, put_ascending,
    put_run, repeat_run, select_block, select_blocks, select_count, select_write, take_run,
    unravel_run, where_loop)
from pyblitz.runtime.atomic cimport u32_load_relaxed

cnp.import_array()

cdef enum:
    # Below this NumPy has moved it before another thread could help.
    SMALL_MOVE_BYTES = 131072
    # Scattering into less is fast on one core: it fits into a cache.
    SMALL_TARGET_BYTES = 4194304
    # Pieces of fewer bytes are joined by loops over each array, not one by one.
    SMALL_PIECE = 64

cdef object not_given = np._NoValue
cdef dict index_modes = {"raise": INDEX_RAISE, "wrap": INDEX_WRAP, "clip": INDEX_CLIP}


# ---- what can be moved ------------------------------------------------------

cdef bint movable(cnp.dtype d):
    """Whether items are bytes alone: no references, nothing outside."""
    return d.itemsize > 0 and d.type_num < 256 and not d.hasobject


cdef inline bint is_small(ndarray a):
    return cnp.PyArray_SIZE(a) * cnp.PyArray_ITEMSIZE(a) <= SMALL_MOVE_BYTES


cdef bint takes_items(ndarray a):
    """Whether it is writeable, and each item a place of its own."""
    cdef int d
    for d in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_STRIDE(a, d) == 0 and cnp.PyArray_DIM(a, d) > 1:
            return False
    return cnp.PyArray_ISWRITEABLE(a)


cdef tuple shape_of(ndarray a):
    return tuple([cnp.PyArray_DIM(a, d) for d in range(cnp.PyArray_NDIM(a))])


cdef object contiguous(ndarray a):
    if cnp.PyArray_IS_C_CONTIGUOUS(a):
        return a
    result = np.empty(shape_of(a), a.dtype)
    copy_into(result, a, "unsafe")
    return result


# ---- copying ----------------------------------------------------------------

cdef class SlicedCopy(Slices):
    cdef ndarray out
    cdef ndarray a
    cdef int axis

    cdef object part(self, int64_t lo, int64_t hi):
        index = at(self.axis, lo, hi)
        np.copyto(self.out[index], self.a[index], casting="unsafe")


cdef object copy_items(ndarray out, ndarray a):
    """The same dtype, shapes that broadcast, no overlap."""
    cdef Map m
    cdef Entry e
    cdef int rc, d, ndim = cnp.PyArray_NDIM(out)
    cdef cnp.npy_intp shape[64]
    for d in range(ndim):
        shape[d] = cnp.PyArray_DIM(out, d)
    fill_map(&m, [a, out], ndim, shape, 1)
    cdef intptr_t itemsize = cnp.PyArray_ITEMSIZE(out)
    with nogil:
        enter(&e)
        rc = copy_run(e.worker, &m, itemsize)
        rc = leave(&e, rc)
    check(rc, "the copy")


cdef int first_long_axis(ndarray a):
    """The axis to slice: the outermost in memory that has enough for all."""
    strides = (<object>a).strides
    shape = shape_of(a)
    for axis in sorted(range(len(shape)), key=lambda d: -abs(strides[d])):
        if shape[axis] >= 64:
            return axis
    return longest_axis(shape, range(len(shape)))


cdef bint casts_quietly(cnp.dtype source, cnp.dtype target):
    """Whether slices can be cast each by itself: nothing but floating-point flags is
    reported."""
    return (source.kind in "biufc" and target.kind in "biufc" and source.type_num < 256
            and target.type_num < 256 and (source.kind != "c" or target.kind == "c"))


cdef object copy_into(ndarray out, ndarray a, str casting):
    cdef SlicedCopy s
    cdef int64_t size = cnp.PyArray_SIZE(out), n
    if (is_small(out) or cnp.PyArray_NDIM(out) > MAP_DIMS or not takes_items(out)
            or cnp.PyArray_NDIM(a) > cnp.PyArray_NDIM(out)
            or may_overlap(out, a)):
        np.copyto(out, a, casting=casting)
        return
    shape = shape_of(out)
    try:
        a = np.broadcast_to(a, shape)
    except ValueError:
        np.copyto(out, a, casting=casting)      # raises
        return
    if a.dtype == out.dtype and movable(out.dtype):
        copy_items(out, a)
    elif (casts_quietly(a.dtype, out.dtype) and np.can_cast(a.dtype, out.dtype, casting)):
        s = SlicedCopy("copy", True)
        if cnp.PyArray_IS_F_CONTIGUOUS(a) and cnp.PyArray_IS_F_CONTIGUOUS(out):
            a, out = a.T, out.T
        if cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_IS_C_CONTIGUOUS(out):
            # What NumPy makes of a float that an integer cannot hold depends on
            # whether it is in the last items: slices must end as vectors do.
            s.a, s.out, s.axis = a.reshape(-1), out.reshape(-1), 0
        else:
            s.a, s.out, s.axis = a, out, first_long_axis(out)
        n = cnp.PyArray_DIM(s.out, s.axis)
        s.run(max(1, SLICE_ITEMS * n // size), n, False)
        report_flags("cast", s.flags.seen)
    else:
        np.copyto(out, a, casting=casting)


def par_copy(a, dtype=None, order="K", out=None, casting=None, *, progress=None):
    """A copy of an array, on all cores, of another dtype or order if asked for:
    ``np.array(a, dtype, order=order)``; or into another array: ``np.copyto``.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
        Of the copy; not together with ``out``.
    order : {'K', 'C', 'F', 'A'}, optional
        The memory order of the copy, as in ``np.copy``.
    out : ndarray, optional
        Where the copy goes; ``a`` is broadcast to its shape.
    casting : str, optional
        What casts to allow.  By default what NumPy's function does: all, as
        ``np.array``; with ``out``, 'same_kind', as ``np.copyto``.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError
        What NumPy raises for the same mistake; ``dtype`` and ``out`` together.

    Notes
    -----
    O(n) work.  Between different orders it goes in tiles that fit into L1, so that
    every cache line is fetched once.  A cast is NumPy's own, on slices; it holds the
    GIL only around each slice's loop.  No extra memory.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_copy(np.arange(3), np.float32)
    array([0., 1., 2.], dtype=float32)
    """
    if progress is not None:
        return with_progress(progress, par_copy, (a, dtype, order, out, casting), {})
    if out is not None:
        if dtype is not None:
            raise TypeError("dtype: not together with out")
        if casting is None:
            casting = "same_kind"
        if (cnp.PyArray_CheckExact(out) and cnp.PyArray_CheckExact(a) and type(casting) is str
                and not is_small(out)):
            copy_into(out, a, casting)
        else:
            np.copyto(out, a, casting=casting)
        return out
    if not cnp.PyArray_CheckExact(a) or is_small(a) or not (casting is None or type(casting) is str):
        if casting is not None:
            if not hasattr(a, "astype"):
                a = np.asarray(a)
            return a.astype(a.dtype if dtype is None else dtype, order, casting, False)
        return np.array(a, dtype, order=order)
    if dtype is not None:
        dtype = np.dtype(dtype)
    if (type(order) is not str or order not in "KCFA"
            or not (dtype is None or dtype.kind in "biufc" or dtype == a.dtype)
            or (casting is not None and dtype is not None
                and not np.can_cast(a.dtype, dtype, casting))):
        # May need to look at the items for the dtype; or is refused.
        return a.astype(a.dtype if dtype is None else dtype, order, casting or "unsafe", False)
    result = np.empty_like(a, dtype, order)
    copy_into(result, a, "unsafe")
    return result


def par_flatten(a, order="C", *, progress=None):
    """A copy of an array in one dimension, on all cores: ``ndarray.flatten``.

    Parameters
    ----------
    a : array_like
    order : {'C', 'F', 'A', 'K'}, optional
        In which order the items are read.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError, ValueError
        What ``ndarray.flatten`` raises for the same mistake.

    Notes
    -----
    O(n) work, as ``par_copy``.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_flatten(np.eye(2))
    array([1., 0., 0., 1.])
    """
    if progress is not None:
        return with_progress(progress, par_flatten, (a, order), {})
    if not cnp.PyArray_CheckExact(a):
        if not is_plain(a):
            return a.flatten(order)
        a = np.asarray(a)
    if is_small(a) or order not in ("C", "F", "A", "K"):
        return a.flatten(order)
    if order == "K":
        if not (cnp.PyArray_IS_C_CONTIGUOUS(a) or cnp.PyArray_IS_F_CONTIGUOUS(a)):
            return a.flatten(order)
        order = "A"
    if order == "A":
        order = "F" if cnp.PyArray_IS_F_CONTIGUOUS(a) and not cnp.PyArray_IS_C_CONTIGUOUS(a) else "C"
    result = np.empty(a.size, a.dtype)
    copy_into(result.reshape(a.shape, order=order), a, "unsafe")
    return result


# ---- selection --------------------------------------------------------------

cdef bint selects(ndarray a, ndarray mask):
    """Whether the mask is one of the first axes of a, and its items can be moved."""
    cdef int d
    if (cnp.PyArray_TYPE(mask) != cnp.NPY_BOOL or cnp.PyArray_NDIM(mask) == 0
            or cnp.PyArray_NDIM(mask) > cnp.PyArray_NDIM(a)):
        return False
    for d in range(cnp.PyArray_NDIM(mask)):
        if cnp.PyArray_DIM(mask, d) != cnp.PyArray_DIM(a, d):
            return False
    return movable(a.dtype)


cdef int count_mask(Select* s, ndarray mask, object before) except -1:
    cdef Entry e
    cdef int rc
    s.before = <int64_t*>cnp.PyArray_DATA(<ndarray>before)
    with nogil:
        enter(&e)
        rc = select_count(e.worker, s)
        rc = leave(&e, rc)
    return check(rc, "the selection")


cdef int write_selected(Select* s) except -1:
    cdef Entry e
    cdef int rc
    with nogil:
        enter(&e)
        rc = select_write(e.worker, s)
        rc = leave(&e, rc)
    return check(rc, "the selection")


cdef object set_mask(Select* s, ndarray mask, intptr_t itemsize):
    """Returns what must live as long as the selection."""
    s.mask = <const uint8_t*>cnp.PyArray_DATA(mask)
    s.n = cnp.PyArray_SIZE(mask)
    s.itemsize = itemsize
    s.block = select_block(s.n, itemsize)
    before = np.empty(select_blocks(s) + 1, np.int64)
    count_mask(s, mask, before)
    return before


cdef tuple select_items(ndarray a, ndarray mask, bint both):
    """The selected items, and the others if both."""
    cdef Select s
    cdef ndarray yes, no
    cdef int depth = cnp.PyArray_NDIM(mask)
    cdef int64_t total
    a = contiguous(a)
    mask = contiguous(mask)
    tail = shape_of(a)[depth:]
    keep = set_mask(&s, mask, cnp.PyArray_SIZE(a) // cnp.PyArray_SIZE(mask) * cnp.PyArray_ITEMSIZE(a))
    total = s.before[select_blocks(&s)]
    yes = np.empty((total,) + tail, a.dtype)
    s.src = <const char*>cnp.PyArray_DATA(a)
    s.yes = <char*>cnp.PyArray_DATA(yes)
    s.no = NULL
    no = None
    if both:
        no = np.empty((s.n - total,) + tail, a.dtype)
        s.no = <char*>cnp.PyArray_DATA(no)
    write_selected(&s)
    return yes, no


cdef object filter_by_mask(ndarray a, ndarray mask):
    if is_small(a) or not selects(a, mask):
        return a[mask]
    return select_items(a, mask, False)[0]


cdef tuple partition_by_mask(ndarray a, ndarray mask):
    if is_small(a) or not selects(a, mask):
        return a[mask], a[~mask]
    return select_items(a, mask, True)


cdef object flatnonzero_of_mask(ndarray mask):
    cdef Select s
    cdef ndarray result
    if cnp.PyArray_SIZE(mask) <= 16384 or cnp.PyArray_TYPE(mask) != cnp.NPY_BOOL:
        return np.flatnonzero(mask)
    mask = contiguous(mask)
    keep = set_mask(&s, mask, 8)
    result = np.empty(s.before[select_blocks(&s)], np.int64)
    s.src = s.no = NULL
    s.yes = <char*>cnp.PyArray_DATA(result)
    write_selected(&s)
    return result.view(np.intp)


cdef object mask_of(ndarray a):
    if cnp.PyArray_TYPE(a) == cnp.NPY_BOOL:
        return a
    if a.dtype.kind not in "iufc":
        return None
    return collect([apply(np.not_equal, (node_of(a), 0), {})], None)[0]


cdef ndarray as_mask(object a, object mask):
    if not cnp.PyArray_CheckExact(mask):
        if callable(mask) or is_compiled(mask):
            return predicate_mask(a if cnp.PyArray_CheckExact(a) else np.asarray(a), mask)
        mask = np.asarray(mask)
    if cnp.PyArray_TYPE(mask) != cnp.NPY_BOOL:
        raise TypeError(f"mask: expected booleans, not {mask.dtype}")
    return mask


def par_filter(a, mask, *, progress=None):
    """The items that a mask or a predicate selects, on all cores: ``a[mask]``.

    Parameters
    ----------
    a : array_like
    mask : array_like of bool, ufunc, compiled kernel or callable
        Of the shape of ``a``, or of its first axes: then it selects rows. Or a predicate
        of the items, as for :func:`par_find_first`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        A copy of the selected items, or rows, in C order.

    Raises
    ------
    IndexError
        The shape of the mask is another.
    TypeError
        The mask is not of booleans, or the predicate does not fit the items.

    Notes
    -----
    O(n) work, in two passes: the mask is counted in blocks, then each block writes
    where the prefix sums say (Blelloch's pack).  Items are stored without a branch,
    so a random mask costs what a regular one does.  What is not contiguous is copied
    first.  Objects are left to NumPy.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> x = np.arange(6)
    >>> pb.par_filter(x, x % 2 == 0)
    array([0, 2, 4])
    """
    cdef ndarray m = as_mask(a, mask)
    if progress is not None:
        return with_progress(progress, par_filter, (a, mask), {})
    if not cnp.PyArray_CheckExact(a):
        if not is_plain(a):
            return a[m]
        a = np.asarray(a)
    return filter_by_mask(a, m)


def par_partition_by(a, mask, *, progress=None):
    """The items that a mask or a predicate selects, and the others, on all cores:
    ``a[mask], a[~mask]`` in one pass over ``a``.

    Parameters
    ----------
    a : array_like
    mask : array_like of bool, ufunc, compiled kernel or callable
        Of the shape of ``a``, or of its first axes: then it splits rows. Or a predicate
        of the items, as for :func:`par_find_first`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    selected, others : ndarray
        Two arrays; each keeps the order of ``a``.

    Raises
    ------
    IndexError
        The shape of the mask is another.
    TypeError
        The mask is not of booleans.

    Notes
    -----
    O(n) work; see ``par_filter``.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> x = np.arange(6)
    >>> pb.par_partition_by(x, x % 2 == 0)
    (array([0, 2, 4]), array([1, 3, 5]))
    """
    cdef ndarray m = as_mask(a, mask)
    if progress is not None:
        return with_progress(progress, par_partition_by, (a, mask), {})
    if not cnp.PyArray_CheckExact(a):
        if not is_plain(a):
            return a[m], a[~m]
        a = np.asarray(a)
    return partition_by_mask(a, m)


def par_flatnonzero(a, predicate=None, *, progress=None):
    """The indices of all items that are not zero, on all cores: ``np.flatnonzero``.

    Parameters
    ----------
    a : array_like
    predicate : number, ufunc, compiled kernel or callable, optional
        What else is to be true of the items, as for :func:`par_find_first`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of intp
        Indices into the flattened array, ascending.

    Raises
    ------
    TypeError, ValueError
        What ``np.flatnonzero`` raises for the same mistake; a predicate that does not fit.

    Notes
    -----
    O(n) work: numbers are compared with zero, which takes a byte for each, then as
    for ``par_filter``.  Other types than booleans and numbers are left to NumPy.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_flatnonzero([0, 3, 0, 1])
    array([1, 3])
    """
    if progress is not None:
        return with_progress(progress, par_flatnonzero, (a, predicate), {})
    if predicate is not None:
        return flatnonzero_of_mask(predicate_mask(np.asarray(a), predicate))
    if not cnp.PyArray_CheckExact(a) or cnp.PyArray_SIZE(a) <= 16384:
        return np.flatnonzero(a)
    mask = mask_of(a)
    return np.flatnonzero(a) if mask is None else flatnonzero_of_mask(mask)


cdef object nonzero(object a):
    """np.nonzero."""
    cdef Unravel u
    cdef Entry e
    cdef int rc
    cdef ndarray flat, columns, shape
    if (not cnp.PyArray_CheckExact(a) or cnp.PyArray_SIZE(a) <= 16384 or cnp.PyArray_NDIM(a) == 0):
        return np.nonzero(a)
    mask = mask_of(a)
    if mask is None:
        return np.nonzero(a)
    flat = flatnonzero_of_mask(mask)
    if cnp.PyArray_NDIM(a) == 1:
        return (flat,)
    shape = np.array(a.shape, np.int64)
    columns = np.empty((a.ndim, cnp.PyArray_SIZE(flat)), np.int64)
    u.flat = <const int64_t*>cnp.PyArray_DATA(flat)
    u.columns = <int64_t*>cnp.PyArray_DATA(columns)
    u.n = cnp.PyArray_SIZE(flat)
    u.dims = a.ndim
    u.shape = <const int64_t*>cnp.PyArray_DATA(shape)
    with nogil:
        enter(&e)
        rc = unravel_run(e.worker, &u)
        rc = leave(&e, rc)
    check(rc, "the coordinates")
    return tuple(columns.view(np.intp))


def par_where(condition, x=np._NoValue, y=np._NoValue, /, *, progress=None):
    """The items of ``x`` where the condition holds, else those of ``y``, on all
    cores: ``np.where``.

    Parameters
    ----------
    condition : array_like
        What is not zero holds.
    x, y : array_like, optional
        Broadcast against the condition and each other.  Without both: where the
        condition holds, as ``np.nonzero``.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray, or a tuple of them

    Raises
    ------
    TypeError, ValueError
        What ``np.where`` raises for the same mistake.

    Notes
    -----
    O(n) work.  ``x`` or ``y`` of another dtype than the result's is copied first.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_where([True, False, True], [1, 2, 3], 0.5)
    array([1. , 0.5, 3. ])
    """
    cdef list ops
    cdef cnp.npy_intp shape[64]
    cdef int ndim, i
    cdef int64_t size = 1
    cdef Map m
    cdef cnp.dtype d
    if progress is not None:
        return with_progress(progress, par_where, (condition, x, y), {})
    if x is not_given or y is not_given:
        if x is not_given and y is not_given:
            return nonzero(condition)
        return np.where(condition, y if x is not_given else x)      # raises
    ops = [condition, x, y]
    for i in range(3):
        if not cnp.PyArray_CheckExact(ops[i]):
            if not is_plain(ops[i]):
                return np.where(condition, x, y)
            ops[i] = np.asarray(ops[i])
    if not broadcast_shape(ops, 3, &ndim, shape):
        return np.where(condition, x, y)
    for i in range(ndim):
        size *= shape[i]
    if size * max(cnp.PyArray_ITEMSIZE(ops[1]), cnp.PyArray_ITEMSIZE(ops[2])) <= SMALL_MOVE_BYTES:
        return np.where(condition, x, y)
    d = (<ndarray>ops[1]).dtype
    if d is not (<ndarray>ops[2]).dtype or not d.isnative:
        try:
            # Python's numbers as they were given: their dtype is weak.
            d = np.result_type(*[
                given if isinstance(given, (int, float, complex)) else op
                for given, op in ((x, ops[1]), (y, ops[2]))])
        except TypeError:
            return np.where(condition, x, y)
    if d.kind not in "biufcmMSU" or not movable(d) or ndim > MAP_DIMS:
        return np.where(condition, x, y)
    ops[0] = mask_of(ops[0])
    if ops[0] is None:
        return np.where(condition, x, y)
    for i in range(1, 3):
        if (<ndarray>ops[i]).dtype == d:
            continue
        try:
            ops[i] = cast_to(ops[i], (x, y)[i - 1], d)
        except (OverflowError, TypeError, ValueError):
            return np.where(condition, x, y)
    ops.append(None)
    make_outputs(ops, 3, (None, None, None, d), ndim, shape)
    fill_map(&m, ops, ndim, shape, 3)
    map_of_loop(&m, where_loop(d.itemsize, map_bits(&m, 1)), <void*><intptr_t>d.itemsize)
    run_map(&m, ops, "where")
    return ops[3]


cdef object cast_to(ndarray a, object given, cnp.dtype d):
    if isinstance(given, (int, float, complex)):
        return np.asarray(given, d)
    result = np.empty_like(a, d)
    copy_into(result, a, "unsafe")
    return result


# ---- gathering and scattering -----------------------------------------------

cdef object as_index(object indices):
    """As signed integers of 4 or 8 bytes in C order; None: NumPy says what is wrong
    with them."""
    cdef ndarray x
    if not cnp.PyArray_CheckExact(indices):
        if not is_plain(indices):
            return None
        indices = np.asarray(indices)
    x = indices
    if x.dtype.kind not in "biu" or not np.can_cast(x.dtype, np.int64, "safe"):
        return None
    if (x.dtype.kind != "i" or cnp.PyArray_ITEMSIZE(x) < 4 or not x.dtype.isnative
            or not cnp.PyArray_ISALIGNED(x)):
        indices = np.empty(shape_of(x), np.int64)
        copy_into(indices, x, "unsafe")
        return indices
    return contiguous(x)


cdef int set_index(Take* t, ndarray index, str mode) except -1:
    t.index = cnp.PyArray_DATA(index)
    t.index_size = cnp.PyArray_ITEMSIZE(index)
    t.mode = index_modes[mode]
    t.count = cnp.PyArray_SIZE(index)
    return 0


cdef bint index_fits(Take* t, int64_t* ready) except -1:
    """Checks the indices, and writes them out ready, unless it is NULL."""
    cdef Entry e
    cdef int rc
    with nogil:
        enter(&e)
        rc = index_run(e.worker, t, ready)
        rc = leave(&e, rc)
    check(rc, "the indices")
    return u32_load_relaxed(&t.bad) == 0


cdef object take_rows(ndarray a, ndarray index, int axis, ndarray out, str mode):
    """False: an index is out of bounds; a given `out` was not touched."""
    cdef Take t
    cdef Entry e
    cdef int rc, d
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
        ready = np.empty(t.count, np.int64)
        if not index_fits(&t, <int64_t*>cnp.PyArray_DATA(ready)):
            return False
        t.index = cnp.PyArray_DATA(ready)
        t.mode = INDEX_READY
    elif out is not None and t.mode == INDEX_RAISE and not index_fits(&t, NULL):
        return False
    shape = shape_of(a)
    target = np.empty(shape[:axis] + shape_of(index) + shape[axis + 1:], a.dtype) if out is None else out
    t.src = <const char*>cnp.PyArray_DATA(a)
    t.dst = <char*>cnp.PyArray_DATA(target)
    with nogil:
        enter(&e)
        rc = take_run(e.worker, &t)
        rc = leave(&e, rc)
    check(rc, "the gathering")
    return False if u32_load_relaxed(&t.bad) else target


def par_take(a, indices, axis=None, out=None, mode="raise", *, progress=None):
    """The items at given indices along an axis, on all cores: ``np.take``.

    Parameters
    ----------
    a : array_like
    indices : array_like of int
        Negative ones count from the end.
    axis : int, optional
        None: of the flattened array.
    out : ndarray, optional
        Where the result goes, of its shape and dtype.
    mode : {'raise', 'wrap', 'clip'}, optional
        What to do about indices out of bounds.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_take(np.array([10, 20, 30]), [2, 0, -1])
    array([30, 10, 30])
    """
    cdef ndarray x, index, o
    cdef int along, d, ndim
    cdef int64_t bytes
    if progress is not None:
        return with_progress(progress, par_take, (a, indices, axis, out, mode), {})
    if not cnp.PyArray_CheckExact(a):
        if not is_plain(a):
            return np.take(a, indices, axis, out, mode)
        a = np.asarray(a)
    x = a
    bytes = cnp.PyArray_ITEMSIZE(x)
    if cnp.PyArray_CheckExact(indices):
        bytes *= cnp.PyArray_SIZE(indices)
        if axis is not None:
            # Items are rows, and there are rows of them.
            bytes *= cnp.PyArray_SIZE(x)
    elif type(indices) is int:
        bytes = 0
    else:
        bytes = SMALL_MOVE_BYTES + 1
    if bytes <= SMALL_MOVE_BYTES or type(mode) is not str or mode not in index_modes or (
            out is not None and not cnp.PyArray_CheckExact(out)):
        return np.take(a, indices, axis, out, mode)
    ndim = cnp.PyArray_NDIM(x)
    if axis is None:
        along = 0
    elif type(axis) is int and -ndim <= axis < ndim:
        along = axis if axis >= 0 else axis + ndim
    else:
        return np.take(a, indices, axis, out, mode)
    made = as_index(indices)
    if made is None or cnp.PyArray_NDIM(made) == 0 or not movable(x.dtype):
        return np.take(a, indices, axis, out, mode)
    index = made
    bytes = cnp.PyArray_SIZE(index) * cnp.PyArray_ITEMSIZE(x)
    if axis is not None and cnp.PyArray_DIM(x, along) > 0:
        bytes *= cnp.PyArray_SIZE(x) // cnp.PyArray_DIM(x, along)
    if bytes <= SMALL_MOVE_BYTES or cnp.PyArray_SIZE(x) == 0:
        return np.take(a, indices, axis, out, mode)
    if out is not None:
        o = out
        shape = shape_of(x)
        if (o.dtype != x.dtype or not cnp.PyArray_IS_C_CONTIGUOUS(o) or not cnp.PyArray_ISWRITEABLE(o)
                or may_overlap(o, x) or may_overlap(o, index)
                or shape_of(o) != (shape_of(index) if axis is None else
                                   shape[:along] + shape_of(index) + shape[along + 1:])):
            return np.take(a, indices, axis, out, mode)
    x = contiguous(x)
    if axis is None:
        x = x.reshape(-1)
    result = take_rows(x, index, along, out, mode)
    if result is False:
        return np.take(a, indices, axis, out, mode)     # raises
    return result


def par_put(a, ind, v, mode="raise", *, progress=None):
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
    mode : {'raise', 'wrap', 'clip'}, optional
        What to do about indices out of bounds.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    part is written by one thread, so the last of equal indices wins.  Extra memory:
    24 bytes for each index, and a copy of indices and values that are not contiguous
    or of another dtype.  An ``a`` of less than 4 MiB, or not in C order, is left to
    NumPy, once the indices are checked.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> x = np.zeros(4)
    >>> pb.par_put(x, [1, 3, 1], [1.0, 2.0, 3.0])
    >>> x
    array([0., 3., 0., 2.])
    """
    cdef ndarray x, index, values, ready, records
    cdef Take t
    cdef Put p
    cdef Entry e
    cdef int rc
    cdef bint done
    if progress is not None:
        return with_progress(progress, par_put, (a, ind, v, mode), {})
    if (not cnp.PyArray_CheckExact(a) or type(mode) is not str or mode not in index_modes
            or not cnp.PyArray_ISWRITEABLE(a) or cnp.PyArray_SIZE(a) == 0):
        return np.put(a, ind, v, mode)
    x = a
    made = as_index(ind)
    if made is None:
        return np.put(a, ind, v, mode)
    index = made
    set_index(&t, index, mode)
    t.length = cnp.PyArray_SIZE(x)
    # np.put would find a bad index in the middle of its work.
    if (cnp.PyArray_SIZE(index) <= 16384 or not movable(x.dtype)
            or t.length * cnp.PyArray_ITEMSIZE(x) <= SMALL_TARGET_BYTES):
        if t.mode == INDEX_RAISE:
            fits = index_is_ready(&t) if t.count <= 16384 else index_fits(&t, NULL)
            if not fits:
                raise out_of_bounds(index, t.length)
        # As np.put, without its wrapper in Python.
        return a.put(index, v, mode)
    ready = np.empty(t.count, np.int64)
    if not index_fits(&t, <int64_t*>cnp.PyArray_DATA(ready)):
        raise out_of_bounds(index, t.length)
    if (not cnp.PyArray_IS_C_CONTIGUOUS(x) or (cnp.PyArray_CheckExact(v) and may_overlap(x, v))
            or may_overlap(x, index)):
        return np.put(a, ready, v)
    if not cnp.PyArray_CheckExact(v) or v.dtype != x.dtype:
        # As np.put does: any cast.
        v = np.array(v, x.dtype)
    values = contiguous(v)
    if cnp.PyArray_SIZE(values) == 0:
        return np.put(a, ready, values)
    p.dst = <char*>cnp.PyArray_DATA(x)
    p.length = t.length
    p.index = <const int64_t*>cnp.PyArray_DATA(ready)
    p.count = t.count
    p.values = <const char*>cnp.PyArray_DATA(values)
    p.period = cnp.PyArray_SIZE(values)
    p.itemsize = cnp.PyArray_ITEMSIZE(x)
    with nogil:
        enter(&e)
        rc = put_ascending(e.worker, &p, &done)
        rc = leave(&e, rc)
    check(rc, "the scattering")
    if done:
        return
    records = np.empty(2 * p.count, np.int64)
    p.records = <Record*>cnp.PyArray_DATA(records)
    with nogil:
        enter(&e)
        rc = put_run(e.worker, &p)
        rc = leave(&e, rc)
    check(rc, "the scattering")


cdef object out_of_bounds(ndarray index, int64_t n):
    for i in index.flat:
        if not -n <= i < n:
            return IndexError(f"index {i} is out of bounds for axis 0 with size {n}")


# ---- joining and repetition -------------------------------------------------

cdef object direct_concatenate(object arrays, object axis, object out, object dtype, object casting):
    # Only what was given: other types see NumPy's own defaults.
    options = {}
    if dtype is not None:
        options["dtype"] = dtype
    if casting != "same_kind":
        options["casting"] = casting
    return np.concatenate(arrays, axis, out, **options)


cdef object join_rows(list arrays, ndarray out, int axis):
    """C order, the same dtype."""
    cdef Join j
    cdef Entry e
    cdef int rc, d
    cdef int64_t k = 0, end = 0
    cdef ndarray sources, ends, x
    sources = np.empty(len(arrays), np.intp)
    ends = np.empty(len(arrays), np.int64)
    j.dst = <char*>cnp.PyArray_DATA(out)
    j.src = <const char**>cnp.PyArray_DATA(sources)
    j.ends = <const int64_t*>cnp.PyArray_DATA(ends)
    j.outer = 1
    for d in range(axis):
        j.outer *= cnp.PyArray_DIM(out, d)
    for x in arrays:
        if cnp.PyArray_SIZE(x) == 0:
            continue
        end += cnp.PyArray_SIZE(x) // j.outer * cnp.PyArray_ITEMSIZE(x)
        (<const char**>j.src)[k] = <const char*>cnp.PyArray_DATA(x)
        (<int64_t*>j.ends)[k] = end
        k += 1
    j.parts = k
    with nogil:
        enter(&e)
        rc = join_run(e.worker, &j)
        rc = leave(&e, rc)
    check(rc, "the result")


cdef object joined_layout(list arrays, int axis, tuple shape, cnp.dtype dtype):
    """An array for the result in the memory order that NumPy would choose."""
    # Corners have the strides of the wholes.
    corner = np.concatenate([a[(slice(0, 2),) * len(shape)] for a in arrays], axis)
    order = sorted(range(len(shape)), key=lambda d: -abs(corner.strides[d]))
    result = np.empty([shape[d] for d in order], dtype)
    return result.transpose([order.index(d) for d in range(len(shape))])


def par_concatenate(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind",
                    progress=None):
    """Joins arrays along an axis, on all cores: ``np.concatenate``.

    Parameters
    ----------
    arrays : sequence of array_like
        Of the same shape, except along the axis.
    axis : int, optional
        None: they are flattened first.
    out : ndarray, optional
        Where the result goes.
    dtype : dtype, optional
        Of the result; not together with ``out``.
    casting : str, optional
        What casts to allow.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.concatenate`` raises for the same mistake.

    Notes
    -----
    O(n) work.  The result is cut into parts of the same size, wherever the arrays
    end: many small arrays are joined as fast as a few large ones.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_concatenate([np.arange(3), [7, 8]])
    array([0, 1, 2, 7, 8])
    """
    cdef ndarray x, first
    cdef int64_t bytes = 0, total = 0, least = 0
    cdef bint c_order = True, f_order = True, same = True
    cdef int d, ndim, along
    cdef list ops = []
    cdef cnp.dtype t
    if progress is not None:
        return with_progress(
            progress, par_concatenate, (arrays, axis, out),
            {"dtype": dtype, "casting": casting})
    if type(arrays) is not list and type(arrays) is not tuple:
        if not cnp.PyArray_CheckExact(arrays) or cnp.PyArray_NDIM(arrays) < 2 or is_small(arrays):
            return direct_concatenate(arrays, axis, out, dtype, casting)
        arrays = list(arrays)
    for a in arrays:
        if not cnp.PyArray_CheckExact(a):
            if type(a) is not list and type(a) is not tuple:
                return direct_concatenate(arrays, axis, out, dtype, casting)
            a = np.asarray(a)
        bytes += cnp.PyArray_SIZE(a) * cnp.PyArray_ITEMSIZE(a)
        ops.append(a)
    if bytes <= SMALL_MOVE_BYTES or (out is not None and not cnp.PyArray_CheckExact(out)):
        return direct_concatenate(arrays, axis, out, dtype, casting)
    first = ops[0]
    ndim = cnp.PyArray_NDIM(first)
    along = 0
    if axis is not None:
        if type(axis) is not int or not -ndim <= axis < ndim or ndim > MAP_DIMS:
            return direct_concatenate(arrays, axis, out, dtype, casting)
        along = axis if axis >= 0 else axis + ndim
    for x in ops:
        c_order = c_order and cnp.PyArray_IS_C_CONTIGUOUS(x)
        f_order = f_order and cnp.PyArray_IS_F_CONTIGUOUS(x)
        same = same and cnp.PyArray_DESCR(x) == cnp.PyArray_DESCR(first)
        if axis is None:
            total += cnp.PyArray_SIZE(x)
            continue
        if cnp.PyArray_NDIM(x) != ndim:
            return direct_concatenate(arrays, axis, out, dtype, casting)
        for d in range(ndim):
            if d != along and cnp.PyArray_DIM(x, d) != cnp.PyArray_DIM(first, d):
                return direct_concatenate(arrays, axis, out, dtype, casting)
        total += cnp.PyArray_DIM(x, along)
    if axis is None:
        shape = (total,)
    else:
        shape = shape_of(first)
        shape = shape[:along] + (total,) + shape[along + 1:]
    if same and out is None and dtype is None and casting == "same_kind" and first.dtype.isnative:
        t = first.dtype
    else:
        try:
            # NumPy's choice, and its permission.
            empty = list({(<ndarray>a).dtype: np.empty(0, (<ndarray>a).dtype) for a in ops}.values())
            t = direct_concatenate(empty, 0, None if out is None else np.empty(0, out.dtype),
                                   dtype, casting).dtype
        except (TypeError, ValueError):
            return direct_concatenate(arrays, axis, out, dtype, casting)
    if not movable(t) or first.dtype.hasobject:
        return direct_concatenate(arrays, axis, out, dtype, casting)
    if out is not None:
        if shape_of(out) != shape or not takes_items(out):
            return direct_concatenate(arrays, axis, out, dtype, casting)
        for x in ops:
            if may_overlap(x, out):
                return direct_concatenate(arrays, axis, out, dtype, casting)
        result = out
    elif axis is None or c_order:
        result = np.empty(shape, t)
    else:
        result = joined_layout(ops, along, shape, t)
    same = same and first.dtype == t
    c_order = c_order and cnp.PyArray_IS_C_CONTIGUOUS(result)
    f_order = f_order and cnp.PyArray_IS_F_CONTIGUOUS(result) and axis is not None
    if same and (c_order or f_order):
        rows = 1
        for d in range(along) if c_order else range(along + 1, ndim):
            rows *= shape[d]
        if bytes // rows >= SMALL_PIECE * len(ops):
            if c_order:
                join_rows(ops, result, along)
            else:
                join_rows([a.T for a in ops], result.T, ndim - 1 - along)
            return result
    total = 0
    for x in ops:
        if axis is None:
            copy_into(result[total:total + cnp.PyArray_SIZE(x)].reshape(shape_of(x)), x, "unsafe")
            total += cnp.PyArray_SIZE(x)
        else:
            copy_into(result[at(along, total, total + cnp.PyArray_DIM(x, along))], x, "unsafe")
            total += cnp.PyArray_DIM(x, along)
    return result


def par_repeat(a, repeats, axis=None, *, progress=None):
    """Repeats each item, on all cores: ``np.repeat``.

    Parameters
    ----------
    a : array_like
    repeats : int or array_like of int
        How often; one for all, or one for each along the axis.
    axis : int, optional
        None: of the flattened array.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.repeat`` raises for the same mistake.

    Notes
    -----
    O(n + m) work for n items and m results.  The results are cut into parts of the
    same size, however uneven the repeats are.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_repeat([7, 8], [1, 3])
    array([7, 8, 8, 8])
    """
    cdef ndarray x, counts, ends, result
    cdef Repeat r
    cdef Entry e
    cdef int rc, d, along, ndim
    cdef int64_t each = -1, most
    if progress is not None:
        return with_progress(progress, par_repeat, (a, repeats, axis), {})
    if not cnp.PyArray_CheckExact(a):
        if not is_plain(a):
            return np.repeat(a, repeats, axis)
        a = np.asarray(a)
    x = a
    ndim = cnp.PyArray_NDIM(x)
    r.itemsize = cnp.PyArray_ITEMSIZE(x)
    if type(repeats) is int:
        if repeats <= 0 or repeats >= 1 << 31 or (
                cnp.PyArray_SIZE(x) * r.itemsize * <int64_t>repeats <= SMALL_MOVE_BYTES):
            return np.repeat(a, repeats, axis)
        each = repeats
        counts = None
    elif is_small(x) or not is_plain(repeats):
        return np.repeat(a, repeats, axis)
    else:
        made = as_index(repeats)
        if made is None or cnp.PyArray_NDIM(made) > 1:
            return np.repeat(a, repeats, axis)
        counts = made
        if cnp.PyArray_SIZE(counts) == 1:
            each = counts.reshape(-1)[0]
            if each <= 0 or each >= 1 << 31:
                return np.repeat(a, repeats, axis)
            counts = None
    if axis is None:
        along = 0
    elif type(axis) is int and -ndim <= axis < ndim:
        along = axis if axis >= 0 else axis + ndim
    else:
        return np.repeat(a, repeats, axis)
    if cnp.PyArray_SIZE(x) == 0 or not movable(x.dtype):
        return np.repeat(a, repeats, axis)
    x = contiguous(x)
    if axis is None:
        x = x.reshape(-1)
    shape = shape_of(x)
    r.length = shape[along]
    r.outer = 1
    for d in range(along):
        r.outer *= shape[d]
    for d in range(along + 1, cnp.PyArray_NDIM(x)):
        r.itemsize *= shape[d]
    r.each = each
    r.ends = NULL
    if counts is None:
        # Its size is checked before it is used.
        r.total = operator.index(int(r.length) * int(each))
    else:
        if cnp.PyArray_SIZE(counts) != r.length:
            return np.repeat(a, repeats, axis)
        if cnp.PyArray_ITEMSIZE(counts) != 8:
            counts = counts.astype(np.int64)
        ends = np.empty(r.length, np.int64)
        r.ends = <const int64_t*>cnp.PyArray_DATA(ends)
        with nogil:
            enter(&e)
            rc = ends_run(e.worker, <const int64_t*>cnp.PyArray_DATA(counts), r.length,
                          <int64_t*>cnp.PyArray_DATA(ends), &most)
            rc = leave(&e, rc)
        check(rc, "the ends")
        # Negative, or so large that the sum might have wrapped.
        if most < 0 or most >= 1 << 31 or r.length >= 1 << 31:
            return np.repeat(a, repeats, axis)
        r.total = ends[r.length - 1]
        if r.total == 0:
            return np.repeat(a, repeats, axis)
    result = np.empty(shape[:along] + (r.total,) + shape[along + 1:], x.dtype)
    r.src = <const char*>cnp.PyArray_DATA(x)
    r.dst = <char*>cnp.PyArray_DATA(result)
    with nogil:
        enter(&e)
        rc = repeat_run(e.worker, &r)
        rc = leave(&e, rc)
    check(rc, "the repetition")
    return result
