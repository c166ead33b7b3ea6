# cython: wraparound=True, boundscheck=True
"""``par_copy``, ``par_flatten``, and copies and selections for others: see copy.pxd."""
from functools import partial

import numpy as np

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, intptr_t, uint8_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport (
    SLICE_ITEMS, at, fill_map, longest_axis, may_overlap, run, run_fn, slices)
from pyblitz.arrays.front cimport Left, left, left_dtype, too_small
from pyblitz.arrays.front import lazy_classes, operation
from pyblitz.arrays.memory cimport empty
from pyblitz.kernels.map cimport MAP_DIMS, Map
from pyblitz.kernels.copy cimport copy_run
from pyblitz.kernels.filter cimport (
    Filter, filter_block, filter_blocks, filter_count, filter_items, filter_write)
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.atomic cimport u32_load_relaxed
from pyblitz.runtime.pool cimport Worker

cnp.import_array()


cdef bint movable(cnp.dtype d):
    return d.itemsize > 0 and d.type_num < 256 and not d.hasobject


cdef bint takes_items(ndarray a):
    cdef int d
    for d in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_STRIDE(a, d) == 0 and cnp.PyArray_DIM(a, d) > 1:
            return False
    return cnp.PyArray_ISWRITEABLE(a)


cdef tuple shape_of(ndarray a):
    return tuple([cnp.PyArray_DIM(a, d) for d in range(cnp.PyArray_NDIM(a))])


cdef bint casts_quietly(cnp.dtype source, cnp.dtype target):
    if source.type_num >= 256 or target.type_num >= 256:
        return False
    if source.kind in "biuf" or (source.kind == "c" and target.kind in "cb"):
        return target.kind in "biufc"
    # Of times in other units, and of text that is cut or filled up.
    return source.kind == target.kind and source.kind in "mMSU"


# ---- the engine -------------------------------------------------------------

cdef struct CopyCall:
    Map m
    intptr_t itemsize


cdef int run_copy(Worker* w, void* ctx) noexcept nogil:
    return copy_run(w, &(<CopyCall*>ctx).m, (<CopyCall*>ctx).itemsize)


cdef int copy_items(ndarray out, ndarray a) except -1:
    cdef CopyCall c
    cdef int d, ndim = cnp.PyArray_NDIM(out)
    cdef cnp.npy_intp shape[64]
    for d in range(ndim):
        shape[d] = cnp.PyArray_DIM(out, d)
    fill_map(&c.m, [a, out], ndim, shape, 1)
    c.itemsize = cnp.PyArray_ITEMSIZE(out)
    return run(run_copy, &c, "the copy")


cdef int first_long_axis(ndarray a):
    """The axis to slice: the outermost in memory that has enough for all."""
    strides = (<object>a).strides
    shape = shape_of(a)
    for axis in sorted(range(len(shape)), key=lambda d: -abs(strides[d])):
        if shape[axis] >= 64:
            return axis
    return longest_axis(shape, range(len(shape)))


def cast_part(out, a, axis, lo, hi):
    """np.copyto on a slice."""
    index = at(axis, lo, hi)
    np.copyto(out[index], a[index], casting="unsafe")


cdef int cast_items(ndarray out, ndarray a) except -1:
    """The same shape, no overlap, another dtype."""
    cdef int axis
    cdef int64_t n
    if cnp.PyArray_IS_F_CONTIGUOUS(a) and cnp.PyArray_IS_F_CONTIGUOUS(out):
        a, out = a.T, out.T
    if cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_IS_C_CONTIGUOUS(out):
        # What NumPy makes of a float that an integer cannot hold depends on
        # whether it is in the last items: slices must end as vectors do.
        a, out, axis = a.reshape(-1), out.reshape(-1), 0
    else:
        axis = first_long_axis(out)
    n = cnp.PyArray_DIM(out, axis)
    return slices("copy", partial(cast_part, out, a, axis),
                  max(1, SLICE_ITEMS * n // cnp.PyArray_SIZE(out)), n, "cast")


cdef bint straight(ndarray a, str order) noexcept:
    """Whether NumPy's memcpy takes no longer than all threads."""
    return order in ("C", "K") and cnp.PyArray_IS_C_CONTIGUOUS(a) and not pays_to_copy(cnp.PyArray_NBYTES(a))


cdef Left share_copy(ndarray out, ndarray a, str casting):
    """None: it is done."""
    cdef cnp.dtype source, target
    if not pays_to_move(cnp.PyArray_NBYTES(out)):
        return too_small
    if not takes_items(out):
        return left("an out that is read-only, or has items in one place")
    if cnp.PyArray_NDIM(out) > MAP_DIMS:
        return left(f"more than {MAP_DIMS} axes")
    source, target = a.dtype, out.dtype
    if not (casts_quietly(source, target) or (source == target and movable(target))
            or (source.kind == "c" and target.kind == "f" and target.type_num < 256)):
        return left_dtype(target if source == target or source.kind in "biufc" else source)
    if not np.can_cast(source, target, casting):
        return left("a cast that it refuses")
    shape = shape_of(out)
    if shape_of(a) != shape:
        try:
            a = np.broadcast_to(a, shape)
        except ValueError:
            a = None
        if a is None:
            return left("shapes that do not fit")
    if source.kind == "c" and target.kind == "f":
        # NumPy's warning, once.
        np.copyto(np.empty(1, target), np.zeros(1, source), casting="unsafe")
        a = a.real
        source = a.dtype
    if may_overlap(out, a):
        made = np.empty(shape, source)
        share_copy(made, a, "no")
        a = made
    if source == target and movable(target):
        copy_items(out, a)
    else:
        cast_items(out, a)
    return None


cdef int copy_into(ndarray out, ndarray a, str casting) except -1:
    if share_copy(out, a, casting) is not None:
        np.copyto(out, a, casting=casting)
    return 0


cdef ndarray contiguous(ndarray a):
    if cnp.PyArray_IS_C_CONTIGUOUS(a):
        return a
    result = np.empty(shape_of(a), a.dtype)
    copy_into(result, a, "no")
    return result


cdef ndarray cast_to(ndarray a, cnp.dtype d):
    if a.dtype == d:
        return a
    result = np.empty_like(a, d)
    copy_into(result, a, "unsafe")
    return result


cdef ndarray native(ndarray a):
    if cnp.PyArray_ISALIGNED(a) and a.dtype.isnative:
        return a
    result = np.empty_like(a, a.dtype.newbyteorder("="))
    copy_into(result, a, "equiv")
    return result


cdef ndarray native_row(ndarray a):
    if not (cnp.PyArray_ISALIGNED(a) and a.dtype.isnative and cnp.PyArray_IS_C_CONTIGUOUS(a)):
        result = np.empty(shape_of(a), a.dtype.newbyteorder("="))
        copy_into(result, a, "equiv")
        return result
    return a


cdef bint is_order(object order):
    return type(order) is str and order in ("K", "C", "F", "A")


cdef bint left_as_it_lies(ndarray a, object order) except -1:
    """Whether NumPy copies it as fast as we do."""
    return is_order(order) and (not pays_to_move(cnp.PyArray_NBYTES(a)) or straight(a, order))


# ---- what a mask selects ----------------------------------------------------

cdef ndarray few_selected(ndarray a, const uint8_t* mask):
    cdef Filter f
    cdef int64_t[2] before = [0, 0]
    cdef ndarray made
    cdef bint written
    f.n = cnp.PyArray_SIZE(a)
    f.block = max(<int64_t>1, f.n)
    f.itemsize = cnp.PyArray_ITEMSIZE(a)
    f.src = <const char*>cnp.PyArray_DATA(a)
    f.mask = mask
    f.no = NULL
    f.before = before
    before[1] = simd.nonzero_bytes(mask, f.n)
    made = empty(1, <cnp.npy_intp*>&before[1], a.dtype, False)
    f.yes = <char*>cnp.PyArray_DATA(made)
    if f.n > BRIEF_ITEMS:
        with nogil:
            written = filter_items(&f, 0, f.n)
    else:
        written = filter_items(&f, 0, f.n)
    if not written:
        # Another thread has changed the mask, which does not know the copy.
        copied = PyBytes_FromStringAndSize(<const char*>mask, f.n)
        made = few_selected(a, <const uint8_t*>PyBytes_AS_STRING(copied))
    return made


cdef object set_mask(Filter* s, ndarray mask, intptr_t itemsize):
    s.mask = <const uint8_t*>cnp.PyArray_DATA(mask)
    s.n = cnp.PyArray_SIZE(mask)
    s.itemsize = itemsize
    s.block = filter_block(s.n, itemsize)
    before = np.empty(filter_blocks(s) + 1, np.int64)
    s.before = <int64_t*>cnp.PyArray_DATA(<ndarray>before)
    run(<run_fn>filter_count, s, "the selection")
    return before


cdef tuple select_items(ndarray a, ndarray mask, bint both):
    cdef Filter s
    cdef ndarray yes, no
    cdef int depth = cnp.PyArray_NDIM(mask)
    cdef int64_t total
    # Views, to which nobody else gives another shape or dtype meanwhile.
    a = contiguous(a).view()
    mask = contiguous(mask).view()
    tail = shape_of(a)[depth:]
    _kept = set_mask(&s, mask, cnp.PyArray_SIZE(a) // max(<int64_t>1, cnp.PyArray_SIZE(mask)) * cnp.PyArray_ITEMSIZE(a))
    total = s.before[filter_blocks(&s)]
    yes = np.empty((total,) + tail, a.dtype)
    s.src = <const char*>cnp.PyArray_DATA(a)
    s.yes = <char*>cnp.PyArray_DATA(yes)
    s.no = NULL
    no = None
    if both:
        no = np.empty((s.n - total,) + tail, a.dtype)
        s.no = <char*>cnp.PyArray_DATA(no)
    run(<run_fn>filter_write, &s, "the selection")
    if u32_load_relaxed(&s.changed):
        # By another thread, which does not know the copy.
        return select_items(a, mask.copy(), both)
    return yes, no


# ---- par_copy ---------------------------------------------------------------

def copied(*args, dtype=None, out=None, casting=None, **options):
    """The namesake of par_copy: ``np.copy``, and NumPy's other functions that copy."""
    if dtype is None and out is None and casting is None:
        return np.copy(*args, **options)
    return copied_otherwise(*args, dtype=dtype, out=out, casting=casting, **options)


def copied_otherwise(a, order="K", subok=False, *, dtype, out, casting):
    if out is not None:
        if dtype is not None:
            raise TypeError("dtype: not together with out")
        np.copyto(out, a, casting="same_kind" if casting is None else casting)
        return out
    if casting is None:
        return np.array(a, dtype, order=order, subok=subok)
    if not hasattr(a, "astype"):
        a = np.asarray(a)
    return a.astype(a.dtype if dtype is None else dtype, order, casting, subok)


@operation("a out", copied)
def par_copy(a, order="K", subok=False, *, dtype=None, out=None, casting=None):
    """A copy of an array, on all cores: ``np.copy``; of another dtype: ``a.astype(dtype)``; or into
    another array: ``np.copyto``.

    Parameters
    ----------
    order : {'K', 'C', 'F', 'A'}, optional
        The memory order of the copy.
    subok : bool, optional
        Whether the copy of a subclass is one, too: NumPy makes it, alone.
    dtype : dtype, optional
        Of the copy; not together with ``out``.
    out : ndarray, optional
        Where the copy goes; ``a`` is broadcast to its shape.
    casting : str, optional
        What casts to allow.  By default what NumPy's function does: all, as
        ``np.array``; with ``out``, 'same_kind', as ``np.copyto``.

    Raises
    ------
    TypeError, ValueError
        What NumPy raises for the same mistake; ``dtype`` and ``out`` together.

    Notes
    -----
    O(n) work.  Between different orders it goes in tiles that fit into L1, so that
    every cache line is fetched once.  A cast is NumPy's own, on slices; it holds the
    GIL only around each slice's loop.  No extra memory, unless ``out`` lies over ``a``.

    Examples
    --------
    >>> pb.par_copy(np.arange(3), dtype=np.float32)
    array([0., 1., 2.], dtype=float32)
    """
    cdef ndarray x, result
    if casting is not None and type(casting) is not str:
        return left("arguments that it may refuse")
    if subok:
        return left("subok=True")
    if out is not None:
        if dtype is not None or not cnp.PyArray_CheckExact(out):
            return left("arguments that it refuses")
        result = out
        if cnp.PyArray_CheckExact(a):
            x = a
        elif not pays_to_move(cnp.PyArray_NBYTES(result)):
            return too_small
        else:
            # A number of Python's takes the type that it is put into.
            x = np.empty((), result.dtype)
            np.copyto(x, a, casting=casting or "same_kind")
        why = share_copy(result, x, casting or "same_kind")
        return out if why is None else why
    if not cnp.PyArray_CheckExact(a):
        return too_small
    x = a
    if dtype is None and casting is None and left_as_it_lies(x, order):
        # What np.copy calls in the end.
        return x.copy(order)
    if not pays_to_move(cnp.PyArray_NBYTES(x)):
        return too_small
    if not is_order(order):
        return left("arguments that it may refuse")
    if dtype is None and straight(x, order):
        return too_small
    if dtype is not None:
        dtype = np.dtype(dtype)
        if dtype.itemsize == 0 or (dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic"):
            return left("a dtype that depends on the items")
    result = np.empty_like(x, dtype, order)
    why = share_copy(result, x, casting or "unsafe")
    return result if why is None else why


# ---- par_flatten ------------------------------------------------------------

def flattened(a, order="C"):
    """The namesake of par_flatten."""
    if type(a) in lazy_classes:
        return par_flatten(np.asarray(a), order)
    return (a if hasattr(a, "flatten") else np.asarray(a)).flatten(order)


@operation("a", flattened, method="flatten", gives="same")
def par_flatten(a, order="C"):
    """A copy of an array in one dimension, on all cores: ``ndarray.flatten``.

    Parameters
    ----------
    order : {'C', 'F', 'A', 'K'}, optional
        In which order the items are read.

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
    >>> pb.par_flatten(np.eye(2))
    array([1., 0., 0., 1.])
    """
    cdef ndarray x, result
    if not cnp.PyArray_CheckExact(a):
        return too_small
    x = a
    if left_as_it_lies(x, order):
        return x.flatten(order)
    if not is_order(order):
        return left("arguments that it may refuse")
    if order == "K":
        if 0 in (<object>x).strides:
            return left("items that occur more than once, as they lie in memory")
        # As they lie in memory.
        x = x.transpose(sorted(range(x.ndim), key=lambda d: -abs(a.strides[d])))
        order = "C"
    elif order == "A":
        order = "F" if cnp.PyArray_IS_F_CONTIGUOUS(x) and not cnp.PyArray_IS_C_CONTIGUOUS(x) else "C"
    result = np.empty(x.size, x.dtype)
    why = share_copy(result.reshape(shape_of(x), order=order), x, "no")
    return result if why is None else why
