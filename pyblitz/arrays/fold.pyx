# cython: wraparound=True, boundscheck=True
"""Reductions of expressions: see fold.pxd."""
import numpy as np

cimport numpy as cnp
from libc.math cimport INFINITY
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, intptr_t, uint32_t, uint64_t
from libc.string cimport memcpy
from numpy cimport ndarray

from pyblitz.arrays.common cimport (
    Flags, Resolved, is_associative, is_half, report_flags, resolve, resolve_reduction, run, run_fn)
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.arrays.evaluate cimport (
    PyArray_CountNonzero, apply, array_of, count_node, few_values, find_node, is_few_items, program_of)
from pyblitz.arrays.front cimport DEAR_NS, REDUCE_NS, no_value
from pyblitz.arrays.memory cimport empty
from pyblitz.arrays.nodes cimport (
    NODE_BLOCKS, NODE_CALL, NODE_CONSTANT, NODE_INPUT, Node, cast, node_of, operation_node,
    side_by_side)
from pyblitz.arrays.program cimport Program, give_back
from pyblitz.kernels.find cimport FIND_NONZERO, FIND_ZERO
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.kernels.reduce cimport (
    Fold, Reduce, arg_fn, block_items, dot_double, dot_float, dot_narrow, dot_wide, extremes_double,
    extremes_float, extremes_narrow, extremes_wide, product_double, product_float, product_signed,
    product_unsigned, product_wide, reduce_run, sum_double, sum_float, sum_signed, sum_unsigned, sum_wide)
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.kernels.user cimport scalar_loop
from pyblitz.runtime.atomic cimport u32_load_relaxed
from pyblitz.runtime.os cimport FE_DIVIDE, FE_INVALID, FE_OVERFLOW, FE_UNDERFLOW

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_Scalar(void* item, cnp.dtype, object base)

cdef enum:
    # So many are looked through by one thread sooner than reduced by all.
    SINGLE_ITEMS = 65536

# NumPy's, without a look into its module at each call.
cdef object add = np.add, multiply = np.multiply, square = np.square
cdef object minimum = np.minimum, maximum = np.maximum
cdef object truth = np.dtype(bool)
cdef object single = np.dtype(np.float32)
cdef object word = np.dtype(np.uint64)


# ---- one pass ---------------------------------------------------------------

cdef inline bint same(object dtype, object other):
    # There may be several objects of one dtype.
    return dtype is other or dtype == other


cdef bint set_fold(Fold* f, object op, Resolved r, int slot, object dtype) except -1:
    """dtype: of the items.  False: there is no loop for it."""
    if r.dtypes is None or r.loop == NULL or not (
            same(r.dtypes[0], r.dtypes[1]) and same(r.dtypes[1], r.dtypes[2])):
        return False
    f.inputs = 1
    f.slots[0] = slot
    f.itemsize = (<cnp.dtype>r.dtypes[0]).itemsize
    f.has_start = False
    f.loop = r.loop
    f.data = r.data
    f.join = NULL
    if op is add and (<cnp.dtype>r.dtypes[0]).type_num == cnp.NPY_DOUBLE:
        f.loop = sum_double
        start_sum(f, True)
    elif op is add and (<cnp.dtype>r.dtypes[0]).type_num == cnp.NPY_FLOAT:
        f.loop = sum_float
        start_sum(f, False)
    elif op is multiply and (<cnp.dtype>r.dtypes[0]).type_num == cnp.NPY_DOUBLE:
        f.loop = product_double
    elif op is multiply and (<cnp.dtype>r.dtypes[0]).type_num == cnp.NPY_FLOAT:
        f.loop = product_float
    elif widens(op, dtype, r.dtypes[0]):
        set_integers(f, op, <cnp.dtype>dtype)
    return True


cdef bint widens(object op, cnp.dtype dtype, cnp.dtype to):
    """Whether it adds or multiplies integers that need no cast to what becomes of them."""
    return ((op is add or op is multiply) and dtype.kind in b"iu" and dtype.kind == to.kind and to.itemsize == 8
            and (dtype.itemsize == 4 or dtype.itemsize == 8)
            and cnp.PyDataType_ISNOTSWAPPED(dtype) and cnp.PyDataType_ISNOTSWAPPED(to))


cdef void set_integers(Fold* f, object op, cnp.dtype dtype) noexcept:
    cdef bint wide = dtype.itemsize == 8, signed = dtype.kind == b"i"
    if op is add:
        into_words(f, sum_wide if wide else sum_signed if signed else sum_unsigned, sum_wide, 0)
    else:
        into_words(f, product_wide if wide else product_signed if signed else product_unsigned, product_wide, 1)


cdef void into_words(Fold* f, loop_fn loop, loop_fn join, uint64_t start) noexcept:
    f.loop = loop
    f.join = join
    f.itemsize = 8
    f.has_start = True
    memcpy(f.start, &start, 8)


cdef void start_sum(Fold* f, bint wide) noexcept:
    """From what changes nothing, not even the sign of a zero: so sums of products that are made on the
    way have the bits of those that are there."""
    cdef float zero = -0.0
    f.has_start = True
    if wide:
        f.start[0] = -0.0
    else:
        memcpy(f.start, &zero, sizeof(float))


cdef void set_dot(Fold* f, cnp.dtype dtype, int first, int second):
    """The sum of the products of two values, of numbers of 4 or 8 bytes."""
    cdef bint wide = dtype.itemsize == 8
    f.inputs = 2
    f.slots[0] = first
    f.slots[1] = second
    if dtype.kind in b"iu":
        into_words(f, dot_wide if wide else dot_narrow, sum_wide, 0)
        return
    f.loop = dot_double if wide else dot_float
    f.join = sum_double if wide else sum_float
    f.itemsize = dtype.itemsize
    start_sum(f, wide)


cdef int fold_in_pool(Reduce* red, bint dear) except -1:
    """Leaves the result in red.result, and what it met in red.flags.  dear: to fold one element takes
    several times as long as to read it."""
    red.grain = block_items(red.map.size, red.fold[0].itemsize, dear or red.map.dear)
    if dear:
        red.map.pace = max(red.map.pace, DEAR_NS)
    run(<run_fn>reduce_run, red, "the reduction")
    return 0


cdef object value_of(Reduce* red, int fold, object dtype):
    cdef ndarray value = empty(0, NULL, dtype, False)
    memcpy(cnp.PyArray_DATA(value), red.result.acc[fold], cnp.PyArray_ITEMSIZE(value))
    return value


cdef object scalar_of(Reduce* red, cnp.dtype dtype):
    """The value of the one fold, as NumPy's scalar: in less time than through an array of it."""
    return PyArray_Scalar(red.result.acc[0], dtype, None)


cdef int report_all(Reduce* red, Program p) except -1:
    """What the folds met, and the steps before them."""
    report_flags("reduce", u32_load_relaxed(&red.flags))
    if p is not None:
        p.end()
    return 0


cdef list reduce_program(Program p, Reduce* red, list dtypes, bint dear):
    """The values of the folds; red.result.items says of how many items.  For `report_all`, if they
    are what is asked for."""
    red.map = &p.m
    red.arg = NULL
    red.folds = len(dtypes)
    fold_in_pool(red, dear)
    return [value_of(red, i, dtypes[i]) for i in range(red.folds)]


cdef bint is_lost(object op, object value, uint32_t flags) except -1:
    """Whether the product of some block is infinite, that of another one zero.  In NumPy's order
    whichever comes first stays what it is: the product is NumPy's then.  A NaN among the elements
    raises no flag."""
    return flags != 0 and op is multiply and bool((value != value).any())


cdef bint is_product(Node node):
    """Whether it is a product of two arrays that set_dot adds up without storing it, in the type of
    the sum."""
    if node.kind != NODE_CALL or (node.what is not square and node.what is not multiply):
        return False
    for arg in node.args:
        if (<Node>arg).kind == NODE_CONSTANT:
            return False
    return node.dtype.char in "df" or (node.dtype.kind in "iu" and node.dtype.itemsize == 8)


cdef bint is_told(uint32_t flags) except -1:
    """Whether NumPy would tell of one of these floating-point errors now."""
    cdef dict how
    if flags == 0:
        return False
    how = np.geterr()
    return ((flags & FE_DIVIDE and how["divide"] != "ignore") or (flags & FE_OVERFLOW and how["over"] != "ignore")
            or (flags & FE_UNDERFLOW and how["under"] != "ignore")
            or (flags & FE_INVALID and how["invalid"] != "ignore"))


cdef tuple fold_node(object op, Node node, Resolved r):
    """(``op.reduce`` of all elements as an array of no dimension, or None of nothing; how
    many there were); None: it is NumPy's, and nothing was reported.  r: None, or how op is resolved."""
    cdef Reduce red
    cdef Program p
    if r is None:
        r = resolve_reduction(op, node.dtype)
    if r.dtypes is None or r.loop == NULL:
        return None
    if node.dtype != r.dtypes[1] and not widens(op, node.dtype, r.dtypes[1]):
        node = cast(node, r.dtypes[1])
    if op is add and is_product(node):
        # Products are added as they are made.
        p = program_of([node.args[0], node.args[len(node.args) - 1]], None, False)
        # Where a step calls a function, nothing is tried that may have to be done once more.
        if p is not None and p.calls is None:
            set_dot(&red.fold[0], node.dtype, p.slots[0], p.slots[1])
            value = reduce_program(p, &red, [r.dtypes[0]], False)[0]
            if not is_told(u32_load_relaxed(&red.flags)):
                p.end()
                return value if red.result.items else None, red.result.items
            # Once more, in two steps, to tell which of them met the error.
            give_back(p)
    p = program_of([node], None, False)
    if not set_fold(&red.fold[0], op, r, p.slots[0], node.dtype):
        return None
    value = reduce_program(p, &red, [r.dtypes[0]], r.dear)[0]
    if red.result.items and is_lost(op, value, u32_load_relaxed(&red.flags)):
        return None
    report_all(&red, p)
    return value if red.result.items else None, red.result.items


cdef loop_fn combining_loop(CompiledKernel k, object dtype) except NULL:
    if k.block or k.kernel.inputs != 2:
        raise TypeError(f"op: a kernel of signature {k.signature!r} does not combine two elements; "
                        "expected T (T, T)")
    if dtype != k.dtype:
        raise TypeError(f"op: the kernel {k.signature!r} takes {k.dtype}, not {dtype}")
    return scalar_loop(<char>ord(k.dtype.kind), k.kernel.itemsize)


cdef object fold_kernel(CompiledKernel k, CompiledKernel combine, list nodes, object initial):
    """The same by compiled functions, of the elements of all nodes.  initial: an identity,
    or no value."""
    cdef Reduce red
    cdef Program p
    cdef Node node
    cdef ndarray start
    result = None
    for n in nodes:
        node = n
        red.fold[0].loop = combining_loop(k, node.dtype)
        red.fold[0].data = &k.kernel
        red.fold[0].join = NULL if combine is None else combining_loop(combine, node.dtype)
        red.fold[0].join_data = NULL if combine is None else <void*>&combine.kernel
        red.fold[0].inputs = 1
        red.fold[0].itemsize = node.dtype.itemsize
        red.fold[0].has_start = initial is not no_value
        if red.fold[0].has_start:
            start = np.asarray(initial, node.dtype)
            memcpy(red.fold[0].start, cnp.PyArray_DATA(start), node.dtype.itemsize)
        p = program_of([node], None, True)
        red.fold[0].slots[0] = p.slots[0]
        value = reduce_program(p, &red, [node.dtype], True)[0]
        report_all(&red, p)
        if red.result.items:
            result = value if result is None else fold_kernel(
                k if combine is None else combine, None, [node_of(np.array([result, value]))], no_value)
    if result is None:
        if initial is no_value:
            raise ValueError("op: there are no elements, and no initial value")
        return np.asarray(initial, (<Node>nodes[0]).dtype)[()]
    return result[()]


# ---- all elements -----------------------------------------------------------

cdef bint is_row(ndarray a) noexcept:
    """Whether its elements lie side by side, in whatever order."""
    return cnp.PyArray_ISALIGNED(a) and (cnp.PyArray_IS_C_CONTIGUOUS(a) or cnp.PyArray_IS_F_CONTIGUOUS(a))


cdef void map_of_row(Map* m, ndarray a) noexcept:
    """All elements of such an array, in memory order, without a step."""
    m.operands = m.dims = 1
    m.registers = m.constants = m.n_steps = 0
    m.size = m.shape[0] = cnp.PyArray_SIZE(a)
    m.sizes[0] = m.strides[0][0] = cnp.PyArray_ITEMSIZE(a)
    m.base[0] = <char*>cnp.PyArray_DATA(a)
    m.block = INT64_MAX
    m.pace = 0
    m.dear = False


cdef bint folds_row(object op, ndarray a, Resolved r) except -1:
    """Whether `fold_row` does this: the items lie side by side, and their type stays, or widens in the loop."""
    return (r.folds and r.associative and r.loop != NULL and a.descr.kind != b"b" and is_row(a)
            and cnp.PyArray_SIZE(a) > 0 and same(r.dtypes[1], r.dtypes[2])
            and (same(r.dtypes[1], a.descr) or widens(op, a.descr, r.dtypes[1]))
            and not (op is add and is_half(r.dtypes[2])))


cdef object fold_row(object op, ndarray a, object initial, Resolved r):
    """Of an array, without a program: the most common reduction."""
    cdef Map m
    cdef Reduce red
    map_of_row(&m, a)
    red.map = &m
    red.arg = NULL
    red.folds = 1
    set_fold(&red.fold[0], op, r, 0, a.descr)
    m.pace = r.pace
    fold_in_pool(&red, r.dear)
    r.pace = m.pace
    if initial is no_value and u32_load_relaxed(&red.flags) == 0 and is_settled(red.result.acc[0], r.dtypes[0]):
        return scalar_of(&red, r.dtypes[0])
    result = value_of(&red, 0, r.dtypes[0])
    if is_lost(op, result, u32_load_relaxed(&red.flags)):
        return op.reduce(a, axis=None, initial=initial)
    report_all(&red, None)
    return from_start(op, result, initial)


cdef bint is_settled(const void* item, cnp.dtype dtype) noexcept:
    """Whether NumPy's own start changes nothing in this result; see `from_start`."""
    if dtype.type_num == cnp.NPY_DOUBLE:
        return (<const double*>item)[0] != 0
    if dtype.type_num == cnp.NPY_FLOAT:
        return (<const float*>item)[0] != 0
    return dtype.kind not in b"fc"


cdef object dot_row(ndarray x, ndarray y):
    """Of two rows of numbers of 4 or 8 bytes, without a program."""
    cdef Map m
    cdef Reduce red
    map_of_row(&m, x)
    m.operands = 2
    m.sizes[1] = m.strides[0][1] = cnp.PyArray_ITEMSIZE(y)
    m.base[1] = <char*>cnp.PyArray_DATA(y)
    red.map = &m
    red.arg = NULL
    red.folds = 1
    set_dot(&red.fold[0], x.descr, 0, 1)
    m.pace = REDUCE_NS * cnp.PyArray_ITEMSIZE(x)
    fold_in_pool(&red, False)
    report_flags("dot", u32_load_relaxed(&red.flags))
    # NumPy starts from a zero, whose sign stays.
    if x.descr.type_num == cnp.NPY_DOUBLE:
        (<double*>red.result.acc[0])[0] += 0
    elif x.descr.type_num == cnp.NPY_FLOAT:
        (<float*>red.result.acc[0])[0] += 0
    else:
        return value_of(&red, 0, word).astype(x.dtype)[()]
    return scalar_of(&red, x.descr)


cdef bint set_extremes(Fold* f, cnp.dtype dtype) except -1:
    """False: there is none for such items."""
    cdef float[2] floats = [INFINITY, -INFINITY]
    cdef double[2] doubles = [INFINITY, -INFINITY]
    cdef int32_t[2] narrow = [INT32_MAX, INT32_MIN]
    cdef int64_t[2] wide = [INT64_MAX, INT64_MIN]
    cdef void* start
    if not cnp.PyDataType_ISNOTSWAPPED(dtype):
        return False
    if dtype.type_num == cnp.NPY_FLOAT:
        f.loop, start = extremes_float, floats
    elif dtype.type_num == cnp.NPY_DOUBLE:
        f.loop, start = extremes_double, doubles
    elif dtype.kind == b"i" and dtype.itemsize == 4 and simd.extremes_narrow != NULL:
        f.loop, start = extremes_narrow, narrow
    elif dtype.kind == b"i" and dtype.itemsize == 8 and simd.extremes_wide != NULL:
        f.loop, start = extremes_wide, wide
    else:
        return False
    f.join = NULL
    f.inputs = 1
    f.slots[0] = 0
    f.itemsize = 2 * dtype.itemsize
    f.has_start = True
    memcpy(f.start, start, f.itemsize)
    return True


cdef object zero_of(object op, ndarray a):
    """The extreme of a, which is a zero: with the sign that it has alone."""
    cdef int64_t nans = 0, negative = 0
    cdef intptr_t n = cnp.PyArray_SIZE(a)
    if n <= SINGLE_ITEMS and cnp.PyArray_ITEMSIZE(a) == 8:
        simd.look_wide(<uint64_t*>cnp.PyArray_DATA(a), n, &nans, &negative)
    elif n <= SINGLE_ITEMS:
        simd.look_narrow(<uint32_t*>cnp.PyArray_DATA(a), n, &nans, &negative)
    if n <= SINGLE_ITEMS and negative == 0:
        return a.dtype.type(0)
    return reduce_node(op, node_of(a), no_value, None)


cdef tuple extremes_row(ndarray a):
    cdef Map m
    cdef Reduce red
    if cnp.PyArray_SIZE(a) == 0 or not is_row(a) or not set_extremes(&red.fold[0], a.descr):
        return None
    map_of_row(&m, a)
    red.map = &m
    red.arg = NULL
    red.folds = 1
    red.grain = block_items(m.size, m.sizes[0], False)
    run(<run_fn>reduce_run, &red, "the reduction")
    low = scalar_of(&red, a.descr)
    high = PyArray_Scalar(<char*>red.result.acc[0] + a.descr.itemsize, a.descr, None)
    if low != low:
        return None
    if a.descr.kind != b"f":
        return low, high
    return low if low != 0 else zero_of(minimum, a), high if high != 0 else zero_of(maximum, a)


cdef tuple extremes_of(ndarray a):
    found = extremes_row(a)
    if found is not None:
        return found
    node = node_of(a)
    found = reduce_two(minimum, node, maximum, node)
    return (np.min(a), np.max(a)) if found is None else found


cdef object started(object op, ndarray result, object initial):
    """From NumPy's own start, `initial` or the identity, in the same type; of times, the unit
    may not be named."""
    return op.reduce(result.reshape(1), 0, None if result.dtype.kind in "mM" else result.dtype, None,
                     False, initial)


cdef object from_start(object op, ndarray result, object initial):
    """NumPy's own start shows in the sign of a zero."""
    value = result[()]
    # Of a product of one complex number it shows in its infinities, too.
    if initial is no_value and (result.descr.kind not in b"fc" or value != 0) and (
            op is not multiply or result.descr.kind != b"c"):
        return value
    return started(op, result, initial)


cdef Node few_as_array(Node node):
    """The node, or the array of the few elements that it is: sums, means and extremes are made of the same."""
    few = few_values(node, True)
    return node if few is None else node_of(few)


cdef object reduce_array(object op, ndarray a, object initial, Resolved r):
    return fold_row(op, a, initial, r) if folds_row(op, a, r) else reduce_node(op, node_of(a), initial, r)


cdef object reduce_node(object op, Node node, object initial, Resolved r):
    cdef ndarray a
    if node.kind == NODE_CONSTANT:
        return op.reduce(np.asarray(node.what), axis=None, initial=initial)
    if r is None:
        r = resolve_reduction(op, node.dtype)
    if op is add and r.dtypes is not None and is_half(r.dtypes[2]):
        found = sum_of_halves([node], initial)
        return op.reduce(array_of(node), axis=None, initial=initial) if found is None else found
    node = few_as_array(node)
    if node.kind == NODE_INPUT and r.dtypes is not None and r.loop != NULL and r.associative:
        a = node.what
        if folds_row(op, a, r):
            return fold_row(op, a, initial, r)
        if is_few_items(a) and a.descr.kind in b"biu":
            # Into a wider type, the same in any order: NumPy's calls take less time than a program.
            if op is add and a.descr.kind == b"b" and initial is no_value:
                return np.intp(PyArray_CountNonzero(a))
            return op.reduce(a, axis=None, initial=initial)
    if same(node.dtype, truth) and initial is no_value and node.shape is not None and 0 not in node.shape:
        found = reduce_truths(op, node)
        if found is not None:
            return found
    found = fold_node(op, node, r) if r.associative else None
    if found is None:
        return op.reduce(array_of(node), axis=None, initial=initial)
    result, items = found
    if items == 0:
        return op.reduce(np.empty(0, node.dtype), initial=initial)
    return from_start(op, result, initial)


cdef object sum_of_halves(list parts, object initial):
    """As NumPy's, in single precision and from a zero: in half precision sums of parts overflow.  None: as
    of sum_rounded."""
    return sum_rounded([cast(p, single) for p in parts], np.dtype(np.float16), single.type(
        0 if initial is no_value or initial is None else initial), "reduce")


cdef object sum_rounded(list parts, object dtype, object start, str name):
    cdef Flags flags = Flags()
    cdef object own = (<Node>parts[0]).dtype, total = start, result = None
    cdef int64_t items = 0
    with np.errstate(all="call", call=flags._note):
        for p in parts:
            # In its own type, which a sum would widen.
            found = fold_node(add, p, resolve(add, (None, own, None), (own, None, None), "unsafe", True))
            if found is None:
                return None
            if found[1] > 0:
                total = found[0][()] + total
                items += found[1]
        if items:
            result = dtype.type(total)
    report_flags(name, flags.seen)
    return result


cdef object reduce_truths(object op, Node node):
    """Of booleans a sum is a count, and a product and extremes of an array are found.  None: another reduction."""
    cdef ndarray a
    cdef bint is_array = node.kind == NODE_INPUT
    if is_array:
        a = node.what
        if cnp.PyArray_IS_C_CONTIGUOUS(a):
            # Which needs no copy in a register, as a mask does.
            node = node_of(a.view(np.uint8))
    if op is add:
        return np.intp(count_node(node))
    if not is_array:
        return None     # steps may warn, raise or be looked at: those behind a hit, too
    if op is multiply:
        return np.intp(find_node(node, FIND_ZERO) < 0)
    if op is maximum:
        return np.bool_(find_node(node, FIND_NONZERO) >= 0)
    if op is minimum:
        return np.bool_(find_node(node, FIND_ZERO) < 0)
    return None


cdef object reduce_parts(object op, list parts, object initial):
    cdef Flags flags = Flags()
    if len(parts) == 1:
        return reduce_node(op, parts[0], initial, None)
    if initial is None or not is_associative(op) or (op.identity is None and any(
            [(<Node>p).shape is None or 0 in (<Node>p).shape for p in parts])):
        return op.reduce(np.concatenate([array_of(p) for p in parts]), axis=None, initial=initial)
    if op is add and is_half((<Node>parts[0]).dtype):
        found = sum_of_halves(parts, initial)
        if found is not None:
            return found
    if op is not multiply:
        return joined(op, parts, initial)
    with np.errstate(all="call", call=flags._note):
        result = joined(op, parts, initial)
    if flags.seen & ~<uint32_t>FE_UNDERFLOW:
        # NumPy's order decides what comes of it, and what is told.
        return op.reduce(np.concatenate([array_of(p) for p in parts]), axis=None, initial=initial)
    report_flags("reduce", flags.seen)
    return result


cdef object joined(object op, list parts, object initial):
    cdef object result = reduce_node(op, parts[0], no_value, None)
    for p in parts[1:]:
        result = op(result, reduce_node(op, p, no_value, None))
    return result if initial is no_value else started(op, np.asarray(result), initial)


cdef tuple reduce_two(object op1, Node one, object op2, Node two):
    """Of one dtype that stays."""
    cdef Reduce red
    cdef Program p
    cdef Resolved r1 = resolve_reduction(op1, one.dtype), r2 = resolve_reduction(op2, two.dtype)
    if r1.dtypes is None or r2.dtypes is None:
        return None
    p = program_of([one if one.dtype == r1.dtypes[1] else cast(one, r1.dtypes[1]),
                    two if two.dtype == r2.dtypes[1] else cast(two, r2.dtypes[1])], None, False)
    if p is None:
        return None
    if not (set_fold(&red.fold[0], op1, r1, p.slots[0], r1.dtypes[1])
            and set_fold(&red.fold[1], op2, r2, p.slots[1], r2.dtypes[1])):
        return None
    values = reduce_program(p, &red, [r1.dtypes[0], r2.dtypes[0]], r1.dear or r2.dear)
    report_all(&red, p)
    return (values[0][()], values[1][()]) if red.result.items else None


# ---- moments ----------------------------------------------------------------

cdef object mean_type(object dtype):
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if is_half(dtype):
        return np.dtype(np.float32)
    return dtype.newbyteorder("=") if dtype.kind in "fc" else None


cdef tuple total_of(list parts):
    """(the sum in the type of means, of how many elements, the type of their mean)"""
    cdef Node node = parts[0]
    dtype = node.dtype
    kind = mean_type(dtype)
    total, items = kind.type(0), 0
    for p in parts:
        node = p
        value, n = fold_node(add, node if node.dtype == kind else cast(node, kind), None)
        if n:
            total = value[()] if items == 0 else total + value[()]
        items += n
    if items and total == 0:
        total = started(add, np.asarray(total), no_value)[()]
    return total, items, dtype.newbyteorder("=") if dtype.kind in "fc" else kind


cdef object mean_of(list parts):
    total, n, dtype = total_of([few_as_array(p) for p in parts])
    return None if n == 0 else dtype.type(total / n)


cdef object variance_of(list parts, object ddof):
    parts = [few_as_array(p) for p in parts]
    total, n, dtype = total_of(parts)
    if n - ddof <= 0:
        return None
    kind = total.dtype
    mean = kind.type(total / n)
    squares = []
    for p in parts:
        rest = apply(np.subtract, [p if (<Node>p).dtype == kind else cast(p, kind), mean], {})
        if kind.kind == "c":
            real = operation_node(NODE_BLOCKS, np.real, (rest,), mean.real.dtype)
            imag = operation_node(NODE_BLOCKS, np.imag, (rest,), mean.real.dtype)
            squares.append(apply(add, [apply(multiply, [real, real], {}), apply(multiply, [imag, imag], {})], {}))
        else:
            squares.append(apply(square, [rest], {}))
    total = reduce_parts(add, squares, no_value)
    return dtype.type(0).real.dtype.type(total / (n - ddof))


# ---- truth ------------------------------------------------------------------

cdef bint any_of(list masks) except -1:
    for mask in masks:
        if find_node(mask, FIND_NONZERO) >= 0:
            return True
    return False


# ---- positions of extremes --------------------------------------------------

cdef object arg_row(ndarray x, arg_fn f):
    cdef Map m
    cdef Reduce red
    cdef Program program
    if cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_ISALIGNED(x):
        map_of_row(&m, x)
        red.map = &m
        red.fold[0].slots[0] = 0
    else:
        # In C order, a block at a time, side by side.
        program = program_of([side_by_side(node_of(x))], None, True)
        red.map = &program.m
        red.fold[0].slots[0] = program.slots[0]
    red.folds = 0
    red.arg = f
    red.arr = <void*>x
    red.fold[0].itemsize = cnp.PyArray_ITEMSIZE(x)
    fold_in_pool(&red, False)
    return np.intp(red.result.at)
