# cython: wraparound=True, boundscheck=True
"""What expressions come to: see evaluate.pxd."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from numpy cimport ndarray, ufunc

from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport Resolved, check, may_overlap, report_flags, resolve, same_memory
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.arrays.nodes cimport (
    NODE_CALL, NODE_CAST, NODE_CONSTANT, NODE_COPY, NODE_INPUT, NODE_KEPT, Filter, Node, again,
    call_ufunc, cast, depends, keep, kept, node_of, sliced, visit)
from pyblitz.arrays.program cimport MAX_STEPS, Program, _TooLarge, one_program
from pyblitz.kernels.collect cimport (
    Collect, collect_begin, collect_free, collect_place, collect_run, collect_write)
from pyblitz.kernels.find cimport Count, Find, FindWhich, count_run, find_run
from pyblitz.kernels.map cimport MAP_DIMS, MAP_OPERANDS, STEP_ARGS, Map, loop_fn, map_run
from pyblitz.kernels.reduce cimport (
    Fold, Reduce, dot_double, dot_float, reduce_run, sum_double, sum_float)
from pyblitz.kernels.user cimport scalar_loop
from pyblitz.runtime.atomic cimport i64_load_relaxed, u32_load_relaxed
from pyblitz.runtime.pool cimport Worker

cnp.import_array()


# ---- operations -------------------------------------------------------------

cdef object apply(ufunc u, tuple args, dict options):
    """What ``u(*args, **options)`` is, not computed yet where that is possible: a node, or a
    tuple of them."""
    cdef list nodes = []
    cdef Node n
    cdef bint constant = True
    for a in args:
        n = a if type(a) is Node else node_of(a)
        nodes.append(n)
        constant = constant and n.kind == NODE_CONSTANT
    if constant:
        return as_nodes(u(*[(<Node>x).what for x in nodes], **options))
    made = call_ufunc(u, nodes, options)
    return at_once(u, nodes, options) if made is None else made


cdef object as_nodes(object result):
    for x in result if isinstance(result, tuple) else (result,):
        if np.asarray(x).dtype.kind not in "biufcmM":
            raise TypeError(f"the result has dtype {np.asarray(x).dtype}; lazy arrays are of numbers or times")
    return tuple([node_of(x) for x in result]) if isinstance(result, tuple) else node_of(result)


cdef object at_once(ufunc u, list nodes, dict options):
    """By NumPy, on arrays: what no program can do, and what NumPy refuses."""
    # First without elements, so that a refusal costs nothing.
    if u.signature is None:
        u(*[(<Node>n).what if (<Node>n).kind == NODE_CONSTANT else np.empty(0, (<Node>n).dtype)
            for n in nodes], **options)
    arrays = [(<Node>n).what if (<Node>n).kind == NODE_CONSTANT else array_of(n) for n in nodes]
    return as_nodes(u(*arrays, **options))


# ---- programs ---------------------------------------------------------------

cdef Program program_of(list nodes, list outs, bint in_order):
    """in_order: positions count, so the axes stay as they are."""
    cdef Node n = nodes[0]
    if n.shape is not None and len(n.shape) > MAP_DIMS:
        nodes = [one_row(node) for node in nodes]
        outs = None if outs is None else [out.reshape(-1) for out in outs]
    try:
        return one_program(nodes, outs, in_order)
    except _TooLarge:
        if len(nodes) > 1:
            raise
    nodes = cut(nodes, False)
    while True:
        try:
            return one_program(nodes, outs, in_order)
        except _TooLarge:
            n = nodes[0]
            if n.domain is None:
                raise ValueError(f"the expression has more than {STEP_ARGS - 1} arrays in one step") from None
        nodes = cut(nodes, True)


cdef Node one_row(Node node):
    """The same in C order and one dimension."""
    shape = node.shape

    def how(part):
        return node_of(np.broadcast_to((<Node>part).what, shape).reshape(-1))

    return sliced(node, how, {})


cdef list cut(list nodes, bint whole):
    """The same values as smaller expressions: parts of them are computed now, into arrays.
    whole: and so is what a filter keeps."""
    cdef Node n, made
    cdef Filter domain
    cdef list order = []
    cdef set seen = set()
    cdef dict now = {}      # what each node is now
    cdef dict domains = {}
    cdef dict users = {}    # how many still need it
    for node in nodes:
        visit(node, seen, order)
        users[node] = 1
    for node in order:
        for arg in needs(node):
            users[arg] = users.get(arg, 0) + 1
    for node in order:
        n = node
        if not n.args:
            now[n] = n
            continue
        domain = n.domain
        if domain is not None:
            if n.kind == NODE_KEPT and domain not in domains:
                domains[domain] = keep(now[domain.mask])
            domain = None if whole and domain.depth == 1 else domains[domain]
        if n.kind == NODE_KEPT:
            made = kept(now[n.args[0]], domains[n.domain])
            if domain is None:
                made = node_of(collect_kept([made], None)[0])
        else:
            made = remade(n, domain, now)
        now[n] = made
        # What nobody needs any more is freed.
        for arg in needs(n):
            users[arg] -= 1
            if users[arg] == 0:
                del now[arg]
    return [now[node] for node in nodes]


cdef tuple needs(Node n):
    return n.args + (n.domain.mask,) if n.kind == NODE_KEPT else n.args


cdef Node remade(Node n, Filter domain, dict now):
    """Of what its arguments are now; if that is large, they are computed first."""
    cdef Node made = again(n, tuple([now[arg] for arg in n.args]), domain)
    if domain is None and is_large(made):
        for arg in n.args:
            if (<Node>now[arg]).args:
                now[arg] = node_of(array_of(now[arg]))
        made = again(n, tuple([now[arg] for arg in n.args]), None)
    return made


cdef bint is_large(Node node) except -1:
    """So that a program can do it, and not much more."""
    cdef Node n
    cdef int steps = 0, arrays = 0
    for part in depends(node):
        n = part
        steps += n.args != ()
        arrays += n.kind == NODE_INPUT
    return steps > MAX_STEPS // 4 or arrays > MAP_OPERANDS // 2


# ---- running ----------------------------------------------------------------

ctypedef int (*run_fn)(Worker* w, void* ctx) noexcept nogil


cdef int run(run_fn fn, void* ctx, str what) except -1:
    """A kernel of this call's, with its errors."""
    cdef Entry e
    cdef int rc
    with nogil:
        enter(&e)
        rc = fn(e.worker, ctx)
        rc = leave(&e, rc)
    return check(rc, what)


cdef struct Whole:
    Map* map
    int64_t grain


cdef int run_whole(Worker* w, void* ctx) noexcept nogil:
    return map_run(w, (<Whole*>ctx).map, (<Whole*>ctx).grain)


cdef int run_only(Program p) except -1:
    """A program that leaves its values where they belong."""
    cdef Whole whole
    if p.m.size > 0:
        whole.map = &p.m
        whole.grain = p.grain()
        run(run_whole, &whole, "the expression")
        p.report()
    return 0


# ---- arrays -----------------------------------------------------------------

cdef object array_of(Node node):
    """Its values; of an array, itself."""
    return node.what if node.kind == NODE_INPUT else collect([node], None)[0]


cdef list collect(list nodes, object out):
    """The values of nodes of one domain, as arrays.  out: an array for the only one."""
    cdef Program p
    cdef Node n
    n = nodes[0]
    if n.domain is not None:
        return collect_kept(nodes, out)
    if out is None:
        outs = [empty_for(node) for node in nodes]
    else:
        outs = [out]
        n = nodes[0]
        if out.shape != n.shape:
            raise ValueError(f"out: shape {out.shape} does not match that of the result, {n.shape}")
        if not np.can_cast(n.dtype, out.dtype, "same_kind"):
            raise TypeError(f"out: cannot cast the result from {n.dtype} to {out.dtype} "
                            "according to the rule 'same_kind'")
        if not out.flags.writeable:
            raise ValueError("out: output array is read-only")
        for part in depends(n):
            if (<Node>part).kind == NODE_INPUT and may_overlap(out, (<Node>part).what) and (
                    not same_memory(out, (<Node>part).what)):
                out[...] = collect(nodes, None)[0]
                return [out]
        if not (cnp.PyArray_ISALIGNED(out) and out.dtype.isnative):
            out[...] = collect(nodes, None)[0]
            return [out]
    if n.shape is not None and len(n.shape) > MAP_DIMS:
        for i, one in enumerate(outs):
            if not one.flags.c_contiguous:
                one[...] = collect([nodes[i]], np.empty(one.shape, one.dtype))[0]
                if len(nodes) == 1:
                    return outs
    try:
        p = program_of(nodes, outs, False)
    except _TooLarge:
        return [collect([node], o)[0] for node, o in zip(nodes, outs)]
    run_only(p)
    return outs


cdef object empty_for(Node node):
    """Allocated in the memory order in which NumPy would."""
    if len(node.shape) < 2 or all_in_c_order(depends(node), len(node.shape)):
        return np.empty(node.shape, node.dtype)
    # NumPy decides by the strides of each step's operands: as for two elements an axis.
    small = np.asarray(shadow(node))
    order = sorted(range(small.ndim), key=lambda axis: -abs(small.strides[axis]))
    made = np.empty([node.shape[axis] for axis in order], node.dtype)
    return made.transpose(np.argsort(order, kind="stable"))


cdef bint all_in_c_order(list order, int ndim) except -1:
    cdef Node n
    for part in order:
        n = part
        if n.kind == NODE_INPUT and not (cnp.PyArray_IS_C_CONTIGUOUS(<ndarray>n.what)
                                         and cnp.PyArray_NDIM(<ndarray>n.what) == ndim):
            return False
    return True


cdef object shadow(Node node):
    """An array of at most two elements an axis, in the memory order of the node's."""
    cdef Node n
    cdef dict made = {}
    for part in depends(node):
        n = part
        if n.kind == NODE_INPUT:
            made[n] = n.what[(slice(0, 2),) * n.what.ndim]
        elif n.kind == NODE_CONSTANT:
            made[n] = n.what
        elif n.kind == NODE_CAST or n.kind == NODE_COPY:
            made[n] = np.empty_like(made[n.args[0]], n.dtype)
        else:
            # Any loop of so many operands will do.
            args = [made[arg] for arg in n.args]
            made[n] = np.nditer(args + [None], ["refs_ok", "zerosize_ok"],
                                [["readonly"]] * len(args) + [["writeonly", "allocate"]],
                                op_dtypes=[None] * len(args) + [n.dtype]).operands[-1]
    return made[node]


cdef list collect_kept(list nodes, object out):
    """Of a filtered domain."""
    cdef Collect c
    cdef Program p
    cdef int k
    cdef int64_t total
    try:
        p = program_of(nodes, None, True)
    except _TooLarge:
        # One at a time, of which each has its own pass.
        return [collect([node], None)[0] for node in nodes]
    c.map = &p.m
    c.values = len(nodes)
    c.grain = p.grain()
    for k in range(c.values):
        c.slots[k] = p.slots[k]
        c.sizes[k] = (<Node>nodes[k]).dtype.itemsize
    try:
        check(collect_begin(&c), "what was kept")
        run(<run_fn>collect_run, &c, "what was kept")
        total = collect_place(&c)
        outs = []
        for k in range(c.values):
            outs.append(np.empty(total, (<Node>nodes[k]).dtype))
            c.out[k] = <char*>cnp.PyArray_DATA(<ndarray>outs[k])
        run(<run_fn>collect_write, &c, "what was kept")
    finally:
        collect_free(&c)
    p.report()
    if out is not None:
        if out.shape != outs[0].shape:
            raise ValueError(f"out: shape {out.shape} does not match that of the result, {outs[0].shape}")
        np.copyto(out, outs[0])
        return [out]
    return outs


# ---- folds ------------------------------------------------------------------

cdef bint set_fold(Fold* f, object op, Resolved r, int slot) except -1:
    """False: there is no loop for it."""
    if r.dtypes is None or r.loop == NULL or not r.dtypes[0] == r.dtypes[1] == r.dtypes[2]:
        return False
    f.inputs = 1
    f.slots[0] = slot
    f.itemsize = (<cnp.dtype>r.dtypes[0]).itemsize
    f.has_start = False
    f.loop = r.loop
    f.data = r.data
    f.join = NULL
    if op is np.add and (<cnp.dtype>r.dtypes[0]).type_num == cnp.NPY_DOUBLE:
        f.loop = sum_double
    elif op is np.add and (<cnp.dtype>r.dtypes[0]).type_num == cnp.NPY_FLOAT:
        f.loop = sum_float
    return True


cdef void set_dot(Fold* f, object dtype, Program p):
    """The sum of the products of a program's two values, of float or double."""
    cdef bint double = dtype.char == "d"
    cdef float zero = -0.0
    f.loop = dot_double if double else dot_float
    f.join = sum_double if double else sum_float
    f.inputs = 2
    f.slots[0] = p.slots[0]
    f.slots[1] = p.slots[1]
    f.itemsize = 8 if double else 4
    # Which changes nothing, not even the sign of a zero.
    f.has_start = True
    if double:
        f.start[0] = -0.0
    else:
        memcpy(f.start, &zero, sizeof(float))


cdef int run_reduce(Reduce* red) except -1:
    """Leaves the result in red.result."""
    red.grain = 0
    run(<run_fn>reduce_run, red, "the reduction")
    if red.arg == NULL:         # which compares with not-a-number, as NumPy's does silently
        report_flags("reduce", u32_load_relaxed(&red.flags))
    return 0


cdef list reduce_program(Program p, Reduce* red, list dtypes):
    """The values of the folds; red.result.items says of how many items."""
    cdef ndarray value
    cdef int i
    red.map = &p.m
    red.arg = NULL
    red.folds = len(dtypes)
    run_reduce(red)
    p.report()
    values = []
    for i in range(red.folds):
        value = np.empty((), dtypes[i])
        memcpy(cnp.PyArray_DATA(value), red.result.acc[i], dtypes[i].itemsize)
        values.append(value)
    return values


cdef Resolved resolve_reduction(object op, Node node):
    return resolve(op, (None, node.dtype, None), None, "unsafe", True)


cdef tuple fold_node(object op, Node node, Resolved r):
    """(``op.reduce`` of all elements as an array of no dimension, or None of nothing; how
    many there were); None: there is no loop for it.  r: None, or how op is resolved."""
    cdef Reduce red
    cdef Program p
    if r is None:
        r = resolve_reduction(op, node)
    if r.dtypes is None or r.loop == NULL:
        return None
    if node.dtype != r.dtypes[1]:
        node = cast(node, r.dtypes[1])
    values = [node]
    if op is np.add and node.kind == NODE_CALL and node.dtype.char in "df" and (
            node.what is np.square or node.what is np.multiply):
        # Products are added as they are made; the bits are the same.
        values = [node.args[0], node.args[len(node.args) - 1]]
    try:
        p = program_of(values, None, False)
    except _TooLarge:
        values = [node_of(array_of(node))]
        p = program_of(values, None, False)
    if len(values) == 2:
        set_dot(&red.fold[0], node.dtype, p)
    elif not set_fold(&red.fold[0], op, r, p.slots[0]):
        return None
    values = reduce_program(p, &red, [node.dtype])
    return values[0] if red.result.items else None, red.result.items


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
        red.fold[0].has_start = initial is not np._NoValue
        if red.fold[0].has_start:
            start = np.asarray(initial, node.dtype)
            memcpy(red.fold[0].start, cnp.PyArray_DATA(start), node.dtype.itemsize)
        p = program_of([node], None, True)
        red.fold[0].slots[0] = p.slots[0]
        value = reduce_program(p, &red, [node.dtype])[0]
        if red.result.items:
            result = value if result is None else fold_kernel(
                k if combine is None else combine, None, [node_of(np.array([result, value]))], np._NoValue)
    if result is None:
        if initial is np._NoValue:
            raise ValueError("op: there are no elements, and no initial value")
        return np.asarray(initial, (<Node>nodes[0]).dtype)[()]
    return result[()]


cdef object reduce_node(object op, Node node, object initial):
    """``op.reduce`` of all elements; a scalar."""
    cdef object options = {} if initial is np._NoValue else {"initial": initial}
    if node.kind == NODE_CONSTANT:
        return op.reduce(np.asarray(node.what), axis=None, **options)
    found = fold_node(op, node, None)
    if found is None:
        return op.reduce(array_of(node), axis=None, **options)
    result, items = found
    if items == 0:
        return op.reduce(np.empty(0, node.dtype), **options)
    if options or result == 0:
        # NumPy's own start, which shows in the sign of a zero.
        return op.reduce(result.reshape(1), **options)
    return result[()]


cdef tuple reduce_two(object op1, Node one, object op2, Node two):
    """Two reductions in one pass, of one dtype that stays, or None: (a, b, items)."""
    cdef Reduce red
    cdef Program p
    cdef Resolved r1 = resolve_reduction(op1, one), r2 = resolve_reduction(op2, two)
    if r1.dtypes is None or r2.dtypes is None:
        return None
    try:
        p = program_of([one if one.dtype == r1.dtypes[1] else cast(one, r1.dtypes[1]),
                        two if two.dtype == r2.dtypes[1] else cast(two, r2.dtypes[1])], None, False)
    except _TooLarge:
        return None
    if not (set_fold(&red.fold[0], op1, r1, p.slots[0])
            and set_fold(&red.fold[1], op2, r2, p.slots[1])):
        return None
    values = reduce_program(p, &red, [r1.dtypes[0], r2.dtypes[0]])
    return values[0][()], values[1][()], red.result.items


# ---- positions, counts and effects ------------------------------------------

cdef object find_node(Node mask, int which):
    """The position of a true element of a mask of one dimension or more, or -1."""
    cdef Find f
    cdef Program p = program_of([mask], None, True)
    f.map = &p.m
    f.slot = p.slots[0]
    f.which = <FindWhich>which
    f.grain = p.grain()
    if p.m.size == 0:
        return -1
    run(<run_fn>find_run, &f, "the search")
    p.report()
    return i64_load_relaxed(&f.hit)


cdef object count_node(Node mask):
    """How many are true."""
    cdef Count c
    cdef Program p = program_of([mask], None, True)
    cdef ndarray counts
    if p.m.size == 0:
        return 0
    c.map = &p.m
    c.slot = p.slots[0]
    c.grain = p.grain()
    counts = np.zeros((p.m.size + c.grain - 1) // c.grain, np.int64)
    c.counts = <int64_t*>cnp.PyArray_DATA(counts)
    run(<run_fn>count_run, &c, "the count")
    p.report()
    return int(counts.sum())


cdef int run_node(Node node) except -1:
    """For what its steps do."""
    return run_only(program_of([node], None, True))
