# cython: wraparound=True, boundscheck=True
"""``par_argsort``."""
import inspect

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, intptr_t, uint8_t
from libc.stdlib cimport free, realloc
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport check, is_plain
from pyblitz.arrays.evaluate cimport apply, find_node
from pyblitz.arrays.merge cimport sort_by_kernel
from pyblitz.arrays.nodes cimport node_of
from pyblitz.kernels.argsort cimport (
    FIELD_BYTES, FIELD_CHARS, FIELD_FLOAT, FIELD_SIGNED, FIELD_TIME, FIELD_UNSIGNED, Field, FieldKind,
    sort_order, sort_order_of_rows)
from pyblitz.kernels.find cimport FIND_ANY
from pyblitz.kernels.radix cimport SHARED_WORDS

cnp.import_array()

cdef enum:
    # Rows of fewer items are sorted by NumPy, stably.
    FEW_ITEMS = 64
    # Rows of more, if they are few, are shared one after another.
    MANY_ROWS = 16

cdef dict field_kinds = {
    "b": FIELD_UNSIGNED, "u": FIELD_UNSIGNED, "i": FIELD_SIGNED, "f": FIELD_FLOAT,
    "m": FIELD_TIME, "M": FIELD_TIME,
}
cdef bint has_descending = "descending" in inspect.signature(np.sort).parameters


cdef bint wants_stable(object kind, object stable):
    return bool(stable) or (kind is not None and str(kind)[:1].lower() in "sm")


cdef class Fields:
    def __cinit__(self):
        self.arrays = []

    def __dealloc__(self):
        free(self.fields)

    cdef int put(self, ndarray a, FieldKind kind, intptr_t offset, int size, bint descending) except -1:
        cdef Field* f = <Field*>realloc(self.fields, (self.n + 1) * sizeof(Field))
        if f == NULL:
            raise MemoryError
        self.fields = f
        f = &self.fields[self.n]
        f.base = <const char*>cnp.PyArray_DATA(a) + offset
        f.step = 0
        f.kind = kind
        f.size = size
        f.descending = descending
        self.n += 1
        self.arrays.append(a)
        return 0

    cdef bint add(self, ndarray a, bint descending) except -1:
        """False: NumPy alone knows how to sort such."""
        cdef object dtype = a.dtype
        cdef str kind = dtype.kind
        cdef intptr_t offset, size = dtype.itemsize
        if not dtype.isnative:
            a = a.astype(dtype.newbyteorder("="))
        if kind == "c" and size <= 16:
            bad = missing(a)
            if bad is None:
                size //= 2
                self.put(a, FIELD_FLOAT, 0, size, descending)
                self.put(a, FIELD_FLOAT, size, size, descending)
                return True
            # Each by what is a number.
            self.add(bad, False)
            part = np.where(bad < 2, a.real, a.imag)
            part[bad == 3] = 0
            self.add(part, descending)
            part = a.imag.copy()
            part[bad != 0] = 0
            return self.add(part, descending)
        if kind == "S":
            for offset in range(0, size, 8):
                self.put(a, FIELD_BYTES, offset, min(size - offset, <intptr_t>8), descending)
            return True
        if kind == "U":
            for offset in range(0, size, 8):
                self.put(a, FIELD_CHARS, offset, min(size - offset, <intptr_t>8), descending)
            return True
        if kind not in field_kinds or size > 8:
            return False
        self.put(a, field_kinds[kind], 0, size, descending)
        return True

    cdef object order(self, int axis, ndarray out, ndarray begins):
        """Along an axis; into rows of n indices each.  begins: of one row, whether a run of
        equal elements begins at each place in the order; or None."""
        cdef Entry e
        cdef int k, rc = 0
        cdef int64_t n = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1)
        cdef int64_t rows = cnp.PyArray_SIZE(out) // n if n else 0, row
        cdef int64_t* to = <int64_t*>cnp.PyArray_DATA(out)
        cdef uint8_t* at = NULL
        cdef ndarray a
        if rows == 0:
            return None
        for k in range(self.n):
            a = self.arrays[k]
            self.fields[k].step = cnp.PyArray_STRIDE(a, axis)
            self.fields[k].pitch = cnp.PyArray_STRIDE(a, 1 - axis) if cnp.PyArray_NDIM(a) == 2 else 0
        if begins is not None:
            at = <uint8_t*>cnp.PyArray_DATA(begins)
        if rows == 1 and n < SHARED_WORDS:
            # No other thread is wanted: the caller goes nowhere.
            with nogil:
                rc = sort_order(NULL, self.fields, self.n, n, to, at)
            return check(rc, "the sort")
        with nogil:
            enter(&e)
            if rows > 1 and (rows >= MANY_ROWS or n < SHARED_WORDS):
                rc = sort_order_of_rows(e.worker, self.fields, self.n, n, rows, to)
            else:
                for row in range(rows):
                    rc = sort_order(e.worker, self.fields, self.n, n, to + row * n, at)
                    if rc != 0:
                        break
                    for k in range(self.n):
                        self.fields[k].base += self.fields[k].pitch
            rc = leave(&e, rc)
        check(rc, "the sort")


cdef object sort_columns(list keys, bint descending, ndarray begins):
    cdef Fields fields = Fields()
    cdef ndarray out
    for key in keys:
        parts = sort_fields(key, None)
        if parts is None:
            return None
        for part in parts:
            if not fields.add(part, descending):
                return None
    if sizeof(Py_ssize_t) != 8:
        return None
    out = np.empty(keys[0].size, np.intp)
    fields.order(0, out, begins)
    return out


cdef object sorting_order(list keys, bint descending):
    return sort_columns(keys, descending, None)


cdef object sorting_runs(list keys):
    begins = np.empty(keys[0].size, np.bool_)
    order = sort_columns(keys, False, begins)
    return None if order is None else (order, begins)


cdef list sort_fields(ndarray a, object order):
    dtype = a.dtype
    if dtype.kind != "V":
        return [a] if dtype.kind in "biufcmMSU" and dtype.char not in "gG" and order is None else None
    if dtype.names is None:
        return None
    names = [] if order is None else [order] if isinstance(order, str) else list(order)
    fields = []
    for name in names + [n for n in dtype.names if n not in names]:
        f = a[name]
        # Half precision: NumPy's comparison of fields puts not-a-numbers first.
        if f.ndim != a.ndim or f.dtype.kind not in "biufcmMSU" or f.dtype.char in "egG":
            return None
        fields.append(f)
    return fields


cdef bint goes_down(object descending, object kind) except -1:
    """As NumPy 2.5 understands it."""
    if descending is not None and kind is not None:
        np.sort(np.empty(1), 0, kind)       # what else is wrong with it
        raise ValueError("kind: not together with descending; stable=True is")
    return bool(descending)


cdef object missing(ndarray a):
    """What is last in both directions, as greater numbers; or None: there is none.  Of
    complex numbers, R + nan j are before nan + R j, and nan + nan j."""
    if a.dtype.kind in "fc" and a.size >= SHARED_WORDS and find_node(
            apply(np.isnan, (node_of(a),), {}), FIND_ANY) < 0:
        return None
    if a.dtype.kind == "c":
        bad = 2 * np.isnan(a.real).view(np.uint8) + np.isnan(a.imag).view(np.uint8)
    elif a.dtype.kind == "f":
        bad = np.isnan(a)
    elif a.dtype.kind in "mM":
        bad = np.isnat(a)
    else:
        return None
    return bad if bad.any() else None


cdef object by_numpy(object fn, object a, object axis, object kind, object order, object stable, bint descending):
    if not descending:
        return fn(a, axis, kind, order, stable=stable)
    if has_descending:
        return fn(a, axis, kind, order, stable=stable, descending=True)
    x = np.asanyarray(a)
    fn(np.empty((1,) * x.ndim, x.dtype), axis, kind, order, stable=stable)
    if x.dtype.kind == "T":
        raise RuntimeError(f"descending: not for elements of dtype {x.dtype}")
    if x.dtype.kind in "OV":
        raise TypeError(f"descending: not for elements of dtype {x.dtype}")
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError("descending: not for masked arrays")
    if x.ndim == 0:
        return fn(x, axis)
    if axis is None:
        x, axis = x.ravel(), -1
    # Backwards twice, so that equal elements keep their order.
    indices = np.argsort(np.flip(x, axis), axis, "stable", order)
    indices = x.shape[axis] - 1 - np.flip(indices, axis)
    bad = missing(x)
    if bad is not None:
        last = np.argsort(np.take_along_axis(bad, indices, axis), axis, "stable")
        indices = np.take_along_axis(indices, last, axis)
    if fn is np.argsort:
        return indices
    result = np.empty_like(x)               # in its layout
    result[...] = np.take_along_axis(x, indices, axis)
    return result


def par_argsort(a, axis=-1, kind=None, order=None, *, stable=None, descending=None, out=None, less=None,
                progress=None):
    """The indices that would sort an array, on all cores: ``np.argsort``.

    Parameters
    ----------
    a : array_like
    axis : int or None, optional
        The axis to sort along, the last one by default; None sorts the
        flattened array.
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}, optional
        As for ``np.argsort``. The result is that of a stable sort for all of them.
    order : str or list of str, optional
        Fields to compare first, for structured arrays.
    stable : bool, optional
        True is ``kind='stable'``.
    descending : bool, optional
        True sorts from the greatest element down; not-a-number and not-a-time are
        last all the same, and equal elements keep their order. As in NumPy 2.5.
    out : ndarray of intp, optional
        Where the result goes, of its shape.
    less : compiled function, optional
        ``int less(const void *a, const void *b, void *data)``, whether the element at
        ``a`` goes before that at ``b``; see the kernels of ``par_map`` for what it may be.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of intp
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.argsort`` raises for the same mistake; an ``out`` of another shape or
        dtype, or read-only; as in NumPy 2.5, ``descending`` beside a ``kind``, or of objects
        and records.
    RuntimeError
        As in NumPy 2.5, ``descending`` of variable-width strings.

    Notes
    -----
    O(n log n) work at most. Numbers, times, complex numbers and strings of fixed width
    are not compared: the bits in which the keys differ are packed above the index into
    words of 8 bytes (after Graefe, 2006), which one parallel pass of radix sort and a SIMD
    sort of each cache-sized bucket put into order; keys that tie in a word, because more
    bits vary than it holds, are sorted in turn by what follows. Other dtypes (objects,
    variable-width strings, extended precision, nested fields): NumPy, alone.

    Extra memory: of one number at most 8 bytes for each element, and none where the keys
    lie evenly; of several fields or strings at most 16; three words for each key that
    ties in the first word. The same permutation for any number of threads.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_argsort([3.0, np.nan, 1.0, 3.0])
    array([2, 0, 3, 1])
    >>> pb.par_argsort([3.0, np.nan, 1.0, 3.0], descending=True)
    array([0, 3, 2, 1])
    """
    cdef ndarray x, rows, result
    cdef Fields fields
    cdef int ndim, along
    cdef bint down = goes_down(descending, kind)
    if progress is not None:
        return with_progress(
            progress, par_argsort, (a, axis, kind, order),
            {"stable": stable, "descending": descending, "out": out, "less": less})
    if less is not None:
        if order is not None:
            raise ValueError("less: cannot be combined with order")
        np.sort(np.empty(0), -1, kind, stable=stable)       # NumPy's opinion of them
        return sort_by_kernel(np.asarray(a), axis, less, bool(descending), out, True)
    if not cnp.PyArray_CheckExact(a):
        if not is_plain(a):
            return argsorted_by_numpy(a, axis, kind, order, stable, down, out)
        a = np.asarray(a)
    x = a
    ndim = cnp.PyArray_NDIM(x)
    if out is not None:
        check_out(x, axis, out, np.dtype(np.intp))
    if (cnp.PyArray_SIZE(x) < FEW_ITEMS or cnp.PyArray_ITEMSIZE(x) == 0 or sizeof(Py_ssize_t) != 8
            or (ndim > 1 and axis is not None and cnp.PyArray_DIM(x, 0) == 0)):
        return argsorted_by_numpy(x, axis, kind, order, stable, down, out)
    if kind is not None or order is not None or stable is not None or ndim != 1 or axis != -1:
        # What is wrong with the arguments, in NumPy's words.
        np.argsort(np.empty((1,) * ndim, x.dtype), axis, kind, order, stable=stable)
    parts = sort_fields(x, order) if not (down and x.dtype.kind == "V") else None
    if parts is None:
        return argsorted_by_numpy(x, axis, kind, order, stable, down, out)
    if axis is None:
        along, ndim = 0, 1
    else:
        along = axis if axis >= 0 else axis + ndim
    fields = Fields()
    for part in parts:
        rows = part.ravel() if axis is None else part
        if ndim > 2:
            rows = np.ascontiguousarray(np.moveaxis(rows, along, -1)).reshape(-1, part.shape[along])
        if not fields.add(rows, down):
            return argsorted_by_numpy(x, axis, kind, order, stable, down, out)
    shape = (x.size,) if axis is None else (<object>x).shape
    if along == ndim - 1:
        result = out
        if result is None or not cnp.PyArray_IS_C_CONTIGUOUS(out) or not cnp.PyArray_ISALIGNED(out) or shares(out, fields.arrays):
            result = np.empty(shape, np.intp)
        fields.order(min(ndim - 1, 1), result, None)
    else:
        moved = np.moveaxis(np.empty(shape, np.bool_), along, -1).shape
        result = np.empty(moved, np.intp)
        fields.order(1 if ndim > 2 else along, result, None)
        moved = np.moveaxis(result, -1, along)
        result = np.empty(shape, np.intp) if out is None else out
        result[...] = moved
    if out is None or out is result:
        return result
    out[...] = result
    return out


cdef bint shares(object out, list arrays):
    for a in arrays:
        if np.may_share_memory(out, a):
            return True
    return False


cdef object argsorted_by_numpy(object a, object axis, object kind, object order, object stable,
                               bint down, object out):
    if cnp.PyArray_CheckExact(a) and (stable is None or kind is None):
        # As for larger ones, where the engine is stable.
        if kind is not None:
            np.argsort(np.empty(1), 0, kind)    # what is wrong with it
        kind, stable = None, True
    result = by_numpy(np.argsort, a, axis, kind, order, stable, down)
    if out is None:
        return result
    out[...] = result
    return out


cdef object check_out(object a, object axis, object out, object dtype):
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out: must be an array, not {type(out).__name__}")
    shape = (a.size,) if axis is None else a.shape
    if out.shape != shape:
        raise ValueError(f"out: shape {out.shape} does not match that of the result, {shape}")
    if out.dtype != dtype:
        raise TypeError(f"out: dtype {out.dtype} does not match that of the result, {dtype}")
    if not out.flags.writeable:
        raise ValueError("out: output array is read-only")
