# cython: wraparound=True, boundscheck=True
"""What sorts share: see sorting.pxd."""
import inspect

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, intptr_t, uint8_t
from libc.stdlib cimport free, realloc
from numpy cimport ndarray

from pyblitz.host.interpreter cimport check
from pyblitz.arrays.common cimport axis_of, is_half, may_overlap, numpys, run, run_fn
from pyblitz.arrays.compiled cimport CompiledKernel, as_less
from pyblitz.arrays.evaluate cimport apply, find_node
from pyblitz.arrays.front cimport (
    ARGSORT_NS, COMPLEX_NS, DIGIT_NS, as_array, check_out, computes_alike, is_masked, member, pays, private_copy)
from pyblitz.kernels.argsort cimport Field, sort_order, sort_order_of_rows
from pyblitz.kernels.find cimport FIND_ANY
from pyblitz.kernels.merge cimport (
    ORDER_LESS, ORDER_LESS_ALONE, ORDER_TRUTH, ORDER_TRUTH_ALONE, MergeSort, OrderForm,
    merge_sort, order_by, sort_rows)
from pyblitz.kernels.numbers cimport (
    KEY_BYTES, KEY_CHARS, KEY_FLOAT, KEY_SIGNED, KEY_TIME, KEY_UNSIGNED, KeyKind)
from pyblitz.kernels.radix cimport SHARED_WORDS
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

key_kinds = {
    "b": KEY_UNSIGNED, "u": KEY_UNSIGNED, "i": KEY_SIGNED, "f": KEY_FLOAT,
    "m": KEY_TIME, "M": KEY_TIME,
}
cdef bint has_descending = "descending" in inspect.signature(np.sort).parameters


# ---- arguments --------------------------------------------------------------

cdef bint wants_stable(object kind, object stable):
    return bool(stable) or (kind is not None and str(kind)[:1].lower() in "sm")


cdef bint goes_down(object descending, object kind) except -1:
    """As NumPy 2.5 understands it."""
    if descending is not None and kind is not None:
        numpys.sort(np.empty(1), 0, kind)       # what else is wrong with it
        raise ValueError("kind: not together with descending; stable=True is")
    return bool(descending)


cdef dict options_of(object axis, object kind, object order, object stable):
    """What is not the default: other libraries' sorts do not know all of them."""
    given = {} if type(axis) is int and axis == -1 else {"axis": axis}
    for name, value in (("kind", kind), ("order", order), ("stable", stable)):
        if value is not None:
            given[name] = value
    return given


cdef object sort_by_numpy(object fn, object a, object axis, object kind, object order, object stable, bint descending):
    if not descending:
        if not cnp.PyArray_CheckExact(a):
            return fn(a, **options_of(axis, kind, order, stable))
        if fn is numpys.argsort:
            # Without its wrapper in Python.
            return a.argsort(axis, kind, order, stable=stable)
        return fn(a, axis, kind, order, stable=stable)
    if has_descending:
        return fn(a, descending=True, **options_of(axis, kind, order, stable))
    x = np.asanyarray(a)
    if fn is numpys.sort:
        # np.argsort's door has copied it.
        x = private_copy(x)
    fn(np.empty((1,) * x.ndim, x.dtype), axis, kind, order, stable=stable)
    if x.dtype.kind == "T":
        raise RuntimeError(f"descending: not for elements of dtype {x.dtype}")
    if x.dtype.kind in "OV":
        raise TypeError(f"descending: not for elements of dtype {x.dtype}")
    if is_masked(x):
        raise ValueError("descending: not for masked arrays")
    if x.ndim == 0:
        return fn(x, axis)
    if axis is None:
        x, axis = x.ravel(), -1
    # Backwards twice, so that equal elements keep their order.
    indices = numpys.argsort(np.flip(x, axis), axis, "stable", order)
    indices = x.shape[axis] - 1 - np.flip(indices, axis)
    bad = missing_rank(x)
    if bad is not None:
        last = numpys.argsort(np.take_along_axis(bad, indices, axis), axis, "stable")
        indices = np.take_along_axis(indices, last, axis)
    if fn is numpys.argsort:
        return indices
    result = np.empty_like(x)               # in its layout
    result[...] = np.take_along_axis(x, indices, axis)
    return result


cdef int check_sorted_out(object out, object a, object axis, bint indices) except -1:
    if out is not None:
        a = a if hasattr(a, "dtype") else np.asarray(a)
        check_out(out, (a.size,) if axis is None else a.shape, np.dtype(np.intp) if indices else a.dtype)
    return 0


cdef ndarray array_to_sort(object fn, object a, object axis, object kind, object order, object stable, object out):
    cdef ndarray x = as_array(a)
    cdef int ndim = cnp.PyArray_NDIM(x)
    check_sorted_out(out, x, axis, fn is numpys.argsort)
    if ndim == 0 or cnp.PyArray_SIZE(x) == 0 or cnp.PyArray_ITEMSIZE(x) == 0:
        return None
    if kind is not None or order is not None or stable is not None or ndim != 1 or axis != -1:
        # What is wrong with the arguments, in NumPy's words.
        fn(np.empty((1,) * ndim, x.dtype), axis, kind, order, stable=stable)
    return x


# ---- rows -------------------------------------------------------------------

cdef bint is_direct(ndarray a):
    return a.dtype.isnative and cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_ISALIGNED(a)


cdef Rows rows_of(ndarray a, object axis, object out):
    cdef Rows r = Rows()
    r.flat = axis is None
    r.array = a.reshape(-1) if r.flat else a
    r.out = out
    r.ndim = cnp.PyArray_NDIM(r.array)
    r.along = 0 if r.flat else axis_of(axis, r.ndim)
    r.rows = r.array if r.along == r.ndim - 1 else np.moveaxis(r.array, r.along, -1)
    return r


cdef class Rows:
    cdef ndarray target(self, object dtype, list read):
        if self.out is not None and self.along == self.ndim - 1 and is_direct(self.out):
            for a in read:
                if may_overlap(self.out, a):
                    break
            else:
                return self.out
        return np.empty((<object>self.rows).shape, dtype)

    cdef ndarray source(self, ndarray target):
        cdef ndarray rows = self.rows
        if is_direct(rows):
            if cnp.PyArray_DATA(rows) == cnp.PyArray_DATA(target):
                return target
            return rows.copy() if may_overlap(rows, target) else rows
        if may_overlap(rows, target):
            return rows.astype(target.dtype, order="C")
        target[...] = rows
        return target

    cdef object give(self, ndarray rows, bint indices):
        if rows is self.out:
            return rows
        if self.ndim == 1 and self.out is None and not self.flat and (
                indices or rows.dtype == self.array.dtype):
            return rows
        found = rows if self.along == self.ndim - 1 else np.moveaxis(rows, -1, self.along)
        if self.out is not None:
            self.out[...] = found
            return self.out
        if indices:
            if found is rows and cnp.PyArray_IS_C_CONTIGUOUS(rows):
                return rows
            result = np.empty(found.shape, found.dtype)
            result[...] = found
            return result
        if self.flat:
            return found.astype(self.array.dtype, copy=False)
        # As np.sort's copy: in the array's own layout and byte order.
        result = np.empty_like(self.array)
        if result.dtype == found.dtype and result.strides == found.strides:
            return found
        result[...] = found
        return result


# ---- orders of fields -------------------------------------------------------

cdef struct Orders:
    Field* fields
    int n_fields
    int64_t n
    int64_t rows
    int64_t* out
    uint8_t* begins


cdef int run_orders(Worker* w, Orders* o) noexcept nogil:
    cdef int64_t row
    cdef int k, rc
    if each_row_alone(o.rows, o.n):
        return sort_order_of_rows(w, o.fields, o.n_fields, o.n, o.rows, o.out)
    for row in range(o.rows):
        rc = sort_order(w, o.fields, o.n_fields, o.n, o.out + row * o.n, o.begins)
        if rc != 0:
            return rc
        for k in range(o.n_fields):
            o.fields[k].base += o.fields[k].pitch
    return 0


cdef class Fields:
    def __cinit__(self):
        self.arrays = []

    def __dealloc__(self):
        free(self.fields)

    cdef int put(self, ndarray a, KeyKind kind, intptr_t offset, int size, bint descending) except -1:
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
            bad = missing_rank(a)
            if bad is None:
                size //= 2
                self.put(a, KEY_FLOAT, 0, size, descending)
                self.put(a, KEY_FLOAT, size, size, descending)
                return True
            # Each by what is a number.
            self.add(bad, False)
            part = np.where(bad < 2, a.real, a.imag)
            part[bad == 3] = 0
            self.add(part, descending)
            part = a.imag.copy()
            part[bad != 0] = 0
            return self.add(part, descending)
        if kind in "SU":
            for offset in range(0, size, 8):
                self.put(a, KEY_BYTES if kind == "S" else KEY_CHARS, offset, min(size - offset, <intptr_t>8),
                         descending)
            return True
        if kind not in key_kinds or size > 8:
            return False
        self.put(a, key_kinds[kind], 0, size, descending)
        return True

    cdef object order(self, int axis, ndarray out, ndarray begins):
        """Along an axis; into rows of n indices each.  begins: of one row, whether a run of
        equal elements begins at each place in the order; or None."""
        cdef Orders o
        cdef int k
        cdef ndarray a
        o.n = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1)
        if cnp.PyArray_SIZE(out) == 0:
            return None
        o.rows = cnp.PyArray_SIZE(out) // o.n
        for k in range(self.n):
            a = self.arrays[k]
            self.fields[k].step = cnp.PyArray_STRIDE(a, axis)
            self.fields[k].pitch = cnp.PyArray_STRIDE(a, 1 - axis) if cnp.PyArray_NDIM(a) == 2 else 0
        o.fields, o.n_fields = self.fields, self.n
        o.out = <int64_t*>cnp.PyArray_DATA(out)
        o.begins = NULL if begins is None else <uint8_t*>cnp.PyArray_DATA(begins)
        if o.rows == 1 and o.n < SHARED_WORDS:
            # No other thread is wanted: the caller goes nowhere.
            with nogil:
                k = run_orders(NULL, &o)
            check(k, "the sort")
        else:
            run(<run_fn>run_orders, &o, "the sort")


cdef ndarray sort_columns(list keys, list downs, ndarray begins):
    cdef Fields fields = Fields()
    cdef ndarray out
    for i, key in enumerate(keys):
        parts = sort_fields(key, None)
        if parts is None:
            return None
        for part in parts:
            if not fields.add(part, downs is not None and downs[i]):
                return None
    out = np.empty(keys[0].size, np.int64)
    fields.order(0, out, begins)
    return out


cdef bint numpy_orders(ndarray x, bint down) noexcept:
    cdef cnp.dtype d = x.descr
    if down:
        return False
    if d.kind == b"c":
        return not pays(cnp.PyArray_SIZE(x), COMPLEX_NS)
    if d.kind in b"biu" and d.itemsize <= 2:
        return not pays(cnp.PyArray_NBYTES(x), DIGIT_NS)
    return not pays(cnp.PyArray_SIZE(x), ARGSORT_NS)


cdef ndarray sorting_order(list keys, list downs):
    return sort_columns(keys, downs, None)


cdef tuple sorting_runs(list keys, list downs):
    begins = np.empty(keys[0].size, np.bool_)
    order = sort_columns(keys, downs, begins)
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
        # Half precision: NumPy's comparison of fields puts NaNs first.
        if f.ndim != a.ndim or f.dtype.kind not in "biufcmMSU" or f.dtype.char in "egG":
            return None
        fields.append(f)
    return fields


cdef bint are_halves(object a) except -1:
    return isinstance(a, np.ndarray) and is_half(a.dtype) and not is_masked(a) and computes_alike(type(a))


cdef object missing_rank(ndarray a):
    """Among complex numbers, R + nan j comes before nan + R j, and that before nan + nan j."""
    if a.dtype.kind in "fc" and a.size >= SHARED_WORDS and find_node(
            apply(np.isnan, [a], {}), FIND_ANY) < 0:
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


# ---- merges -----------------------------------------------------------------

cdef struct Merges:
    MergeSort* s
    int64_t rows


cdef int run_merges(Worker* w, Merges* m) noexcept nogil:
    cdef int64_t row
    cdef int rc
    if each_row_alone(m.rows, m.s.n):
        return sort_rows(w, m.s, m.rows)
    for row in range(m.rows):
        rc = merge_sort(w, m.s)
        if rc != 0:
            return rc
        m.s.src += m.s.n * m.s.order.itemsize
        m.s.dst += m.s.n * m.s.order.itemsize
    return 0


cdef int merge_rows(MergeSort* s, int64_t rows) except -1:
    cdef Merges m
    m.s, m.rows = s, rows
    return run(<run_fn>run_merges, &m, "the sort")


# ---- a user's comparison ----------------------------------------------------

cdef OrderForm comparison_form(CompiledKernel k):
    if k.gives_int:
        return ORDER_LESS if k.kernel.takes_user else ORDER_LESS_ALONE
    return ORDER_TRUTH if k.kernel.takes_user else ORDER_TRUTH_ALONE


cdef CompiledKernel less_for(object less, object dtype):
    """The comparison, if it is one of items of that type."""
    cdef CompiledKernel k = as_less(less)
    if k is None:
        raise TypeError(
            f"less: must be a compiled function, int (const void *, const void *, void *), not "
            f"{type(less).__name__}; to compare by Python, sort an array of objects that "
            "functools.cmp_to_key made")
    if dtype.hasobject or dtype.kind == "T":
        raise TypeError(f"less: compares plain memory, which items of {dtype} are not")
    if k.dtype is not None and dtype.kind in "biufmM":
        # What lies in arrays of other types is the function's own business.
        ours = np.dtype("i8") if dtype.kind in "mM" else dtype.newbyteorder("=")
        if k.dtype != ours:
            raise TypeError(f"less: {k.signature!r} compares {k.dtype}, not {dtype}")
    return k


cdef int sort_rows_by(ndarray rows, ndarray result, CompiledKernel less, bint descending) except -1:
    """Sorts along the last axis of a C-contiguous array into another, or in place when
    both are one."""
    cdef MergeSort s
    s.n = cnp.PyArray_DIM(result, cnp.PyArray_NDIM(result) - 1)
    if cnp.PyArray_SIZE(result) == 0:
        return 0
    s.src = <const char*>cnp.PyArray_DATA(rows)
    s.dst = <char*>cnp.PyArray_DATA(result)
    s.leaf = NULL
    s.arr = NULL
    order_by(&s.order, comparison_form(less), less.kernel.fn, less.kernel.user, cnp.PyArray_ITEMSIZE(result))
    s.order.descending = descending
    return merge_rows(&s, cnp.PyArray_SIZE(result) // s.n)


cdef object sort_by(object given, object axis, object kind, object order, object stable, object descending,
                    object out, object less, bint indices):
    cdef str function = "par_argsort" if indices else "par_sort"
    cdef ndarray a = member(given, "a", function), target
    cdef CompiledKernel k
    cdef Rows r
    cdef bint down
    if is_masked(out):
        member(out, "out", function)        # which refuses it
    if order is not None:
        raise ValueError("less: cannot be combined with order")
    numpys.sort(np.empty(0), -1, kind, stable=stable)       # NumPy's opinion of them
    down = goes_down(descending, kind)
    k = less_for(less, a.dtype)
    if axis is not None:
        numpys.sort(np.empty((1,) * cnp.PyArray_NDIM(a), "?"), axis)    # NumPy's opinion of it
    check_sorted_out(out, a, axis, indices)
    r = rows_of(a, axis, out)
    native = a.dtype.newbyteorder("=")
    if indices:
        # Pairs of an item and its index, which the comparison takes for items: it reads
        # what it compares without a detour.
        pairs = np.empty((<object>r.rows).shape, np.dtype([("item", native), ("index", np.intp)], align=True))
        pairs["item"] = r.rows
        pairs["index"] = np.arange((<object>r.rows).shape[r.ndim - 1])
        sort_rows_by(pairs, pairs, k, down)
        return r.give(pairs["index"], True)
    target = r.target(native, [])
    sort_rows_by(r.source(target), target, k, down)
    return r.give(target, False)
