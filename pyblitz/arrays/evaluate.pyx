# cython: wraparound=True, boundscheck=True
"""What expressions come to: see evaluate.pxd."""
import numpy as np

cimport numpy as cnp
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, intptr_t, uint32_t, uintptr_t
from libc.string cimport memcpy
from numpy cimport ndarray, ufunc

from pyblitz.host.config import share_from
from pyblitz.host.interpreter cimport check
from pyblitz.arrays.common cimport is_half, may_overlap, numpys, report_flags, run, run_fn, same_memory
from pyblitz.arrays.front cimport DEAR_NS, check_out, overlaps_itself, pays
from pyblitz.arrays.memory cimport empty, empty_of
from pyblitz.arrays.nodes cimport (
    NODE_CALL, NODE_CAST, NODE_CONSTANT, NODE_COPY, NODE_INDEX, NODE_INPUT, NODE_KEPT, NODE_WHERE, Domain, Node,
    again, ufunc_node, call_where, common_shape, depends, items_at, keep, kept_node, node_of, sliced, visit)
from pyblitz.arrays.program cimport MAX_STEPS, Program, one_program
from pyblitz.kernels.cast cimport cast_loop
from pyblitz.kernels.collect cimport (
    Collect, collect_begin, collect_free, collect_place, collect_run, collect_write)
from pyblitz.kernels.find cimport (
    FIND_ZERO, CountNonzero, Find, FindWhich, Items, count_nonzero_run, find_run)
from pyblitz.kernels.map cimport MAP_DIMS, MAP_OPERANDS, STEP_ARGS, Map, loop_fn, map_run
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.kernels.where cimport where_loop
from pyblitz.runtime.atomic cimport i64_load_relaxed
from pyblitz.runtime.os cimport fe_clear, fe_test
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

cdef object equal = np.equal


# ---- operations -------------------------------------------------------------

cdef object apply(ufunc u, list args, dict options):
    """What ``u(*args, **options)`` is, not computed yet where that is possible: a node, or a
    tuple of them."""
    if are_constant(args):
        return as_nodes(u(*[(<Node>x).what for x in args], **options))
    made = ufunc_node(u, args, options)
    return at_once(u, args, options) if made is None else made


cdef bint are_constant(list args) except -1:
    """Makes nodes of them all; whether they are numbers."""
    cdef bint constant = True
    cdef int i
    for i in range(len(args)):
        if type(args[i]) is not Node:
            args[i] = node_of(args[i])
        constant = constant and (<Node>args[i]).kind == NODE_CONSTANT
    return constant


cdef Node apply_where(list args):
    """The same of np.where; see call_where."""
    are_constant(args)
    cdef Node mask = args[0]
    if mask.dtype is not None and mask.dtype.kind not in "biufcm":
        raise TypeError(f"np.where: whether {mask.dtype} is true is NumPy's to say")
    if mask.kind == NODE_CONSTANT:
        mask = node_of(np.array(mask.what).astype(bool))
    elif mask.dtype != np.bool_:
        mask = apply(np.not_equal, [mask, np.zeros((), mask.dtype)], {})
    return call_where(mask, args[1], args[2])


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
    cdef Program p
    cdef Node n
    cdef tuple shape
    for node in nodes:
        n = node
        if n.shape is not None and len(n.shape) > MAP_DIMS:
            shape = common_shape(tuple(nodes))
            nodes = [one_row(each, shape) for each in nodes]
            outs = None if outs is None else [out.reshape(-1) for out in outs]
            break
    p = one_program(nodes, outs, in_order)
    if p is not None or len(nodes) > 1:
        return p
    nodes = cut(nodes, False)
    while True:
        p = one_program(nodes, outs, in_order)
        if p is not None:
            return p
        n = nodes[0]
        if n.domain is None:
            raise ValueError(f"the expression has more than {STEP_ARGS - 1} arrays in one step")
        nodes = cut(nodes, True)


cdef Node one_row(Node node, tuple shape):
    """The same, broadcast to a shape, in C order and one dimension."""

    def how(part):
        return node_of(np.broadcast_to(items_at(part), shape).reshape(-1))

    return sliced(node, how, {})


cdef list cut(list nodes, bint whole):
    """The same values as smaller expressions: parts of them are computed now, into arrays.
    whole: and so is what a filter keeps."""
    cdef Node n, made
    cdef Domain domain
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
            made = kept_node(now[n.args[0]], domains[n.domain])
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


cdef Node remade(Node n, Domain domain, dict now):
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
    p.end()
    return 0


# ---- a few elements ---------------------------------------------------------

cdef enum:
    # What is larger is a program: arrays, numbers and steps; steps.
    FEW_SLOTS = 16
    FEW_STEPS = 8
    FEW_ARGS = 4
    # What lies between the steps is on the stack of a thread that may be the caller's.
    FEW_DOUBLES = 2048
    # So many elements NumPy's own calls do without giving the GIL away.
    BRIEF_ITEMS = 500

# A program takes longer than NumPy's calls, or than `few_values`: these do what has no array of more
# bytes than this.
cdef int64_t few_bytes = 0 if share_from() else 65536


def set_few_bytes(int64_t n):
    """For tests; what it was."""
    global few_bytes
    was, few_bytes = few_bytes, n
    return was


cdef struct FewStep:
    loop_fn loop
    void* data
    int args                # the number of slots that it reads, and the one that it writes
    int slots[FEW_ARGS]
    uint32_t flags          # the floating-point errors that it met
    PyObject* node

# An expression of arrays that lie side by side in one order, and of numbers.  It holds no reference.
cdef struct Few:
    int64_t size
    int dims
    cnp.npy_intp shape[MAP_DIMS]
    int slots
    PyObject* same[FEW_SLOTS]       # of each: the array of an input, or else the node itself
    char* at[FEW_SLOTS]             # its first element; of what lies between the steps: of each block's
    intptr_t bytes[FEW_SLOTS]       # from one element to the next
    bint passes[FEW_SLOTS]          # whether it goes on from block to block
    intptr_t scratch                # bytes of an element of all that lies between the steps
    int steps
    FewStep step[FEW_STEPS]
    double ns                       # that its dear steps take for an element


cdef int place_few(Few* f, Node node) except -2:
    """The slot of its values, after the steps that make them; -1: it is no such expression."""
    cdef PyObject* same = <PyObject*>node.what if node.kind == NODE_INPUT else <PyObject*>node
    cdef int i
    for i in range(f.slots):
        if f.same[i] == same:
            return i
    if node.kind == NODE_INPUT or node.kind == NODE_CONSTANT:
        if f.slots == FEW_SLOTS or not is_placed(f, node):
            return -1
    elif not has_step(f, node) or f.slots == FEW_SLOTS:
        return -1
    f.same[f.slots] = same
    f.slots += 1
    return f.slots - 1


cdef bint is_placed(Few* f, Node node) noexcept:
    """Whether it is one of the arrays, or a number, which the next slot is then."""
    cdef ndarray a
    if not cnp.PyArray_CheckExact(node.what):
        return False
    a = node.what
    if not cnp.PyArray_ISALIGNED(a) or not cnp.PyArray_ISNOTSWAPPED(a):
        return False
    f.at[f.slots] = <char*>cnp.PyArray_DATA(a)
    f.passes[f.slots] = node.kind == NODE_INPUT
    f.bytes[f.slots] = cnp.PyArray_ITEMSIZE(a) if f.passes[f.slots] else 0
    if node.kind == NODE_CONSTANT:
        return True
    return (f.size * cnp.PyArray_ITEMSIZE(a) <= few_bytes and cnp.PyArray_IS_C_CONTIGUOUS(a)
            and cnp.PyArray_NDIM(a) == f.dims and cnp.PyArray_CompareLists(cnp.PyArray_DIMS(a), f.shape, f.dims))


cdef bint has_step(Few* f, Node node) except -1:
    """Whether there is a loop for it, which is the next step then, and writes the next slot."""
    cdef FewStep s
    cdef cnp.dtype of, to = node.dtype
    cdef int i, n = len(node.args)
    if n == 0 or n >= FEW_ARGS or to.itemsize * f.size > few_bytes:
        return False
    of = (<Node>node.args[n - 1]).dtype
    s.loop = NULL
    s.data = NULL
    if node.kind == NODE_CALL and len(node.resolved.dtypes) == n + 1:
        s.loop = node.resolved.loop
        s.data = node.resolved.data
        f.ns += DEAR_NS if node.resolved.dear else 0
    elif node.kind == NODE_CAST and of is not None and of.isnative and to.isnative:
        s.loop = cast_loop(of.kind, of.itemsize, to.kind, to.itemsize)
        f.ns += DEAR_NS if is_half(of) or is_half(to) else 0
    elif node.kind == NODE_WHERE:
        s.loop = where_loop(to.itemsize, to.alignment)
        s.data = <void*><intptr_t>to.itemsize
    if s.loop == NULL:
        return False
    for i in range(n):
        s.slots[i] = place_few(f, node.args[i])
        if s.slots[i] < 0:
            return False
    if f.steps == FEW_STEPS or f.slots == FEW_SLOTS:
        return False
    s.slots[n] = f.slots
    s.args = n + 1
    s.flags = 0
    s.node = <PyObject*>node
    f.step[f.steps] = s
    f.steps += 1
    f.bytes[f.slots] = to.itemsize
    f.passes[f.slots] = False
    f.scratch += to.itemsize
    return True


cdef void run_few(Few* f) noexcept nogil:
    """All steps, a block after the other."""
    cdef double scratch[FEW_DOUBLES + 8 * FEW_STEPS]
    cdef char* args[FEW_ARGS]
    cdef intptr_t steps[FEW_ARGS]
    cdef FewStep* s
    cdef char* at = <char*>((<uintptr_t>scratch + 63) & ~<uintptr_t>63)
    cdef int64_t lo = 0
    cdef intptr_t n, block = f.size
    cdef uint32_t flags
    cdef int i, k, slot
    if f.scratch * f.size > <intptr_t>(FEW_DOUBLES * sizeof(double)):
        block = <intptr_t>(FEW_DOUBLES * sizeof(double)) // f.scratch & ~<intptr_t>63
    for i in range(f.steps - 1):
        slot = f.step[i].slots[f.step[i].args - 1]
        f.at[slot] = at
        at += (f.bytes[slot] * block + 63) & ~<intptr_t>63
    fe_clear()
    while lo < f.size:
        n = min(block, <intptr_t>(f.size - lo))
        for i in range(f.steps):
            s = &f.step[i]
            for k in range(s.args):
                slot = s.slots[k]
                steps[k] = f.bytes[slot]
                args[k] = f.at[slot] + (lo * steps[k] if f.passes[slot] else 0)
            s.loop(args, &n, steps, s.data)
            flags = fe_test()
            if flags:
                s.flags |= flags
                fe_clear()
        lo += n


cdef ndarray few_values(Node node, bint quick):
    """The values of one step or several of a few elements, on this thread; None: it is something else,
    or takes long enough to be shared.  quick: only of what no step is dear."""
    cdef Few f
    cdef ndarray made
    cdef int i, last
    if few_bytes == 0 or node.args == () or node.shape is None or len(node.shape) > MAP_DIMS or (
            node.depth > FEW_STEPS):
        return None
    f.dims = len(node.shape)
    f.size = 1
    f.ns = 0
    f.slots = f.steps = 0
    f.scratch = 0
    for i in range(f.dims):
        f.shape[i] = node.shape[i]
        f.size *= f.shape[i]
    last = place_few(&f, node)
    if last < 0 or (quick and f.ns > 0) or (f.ns > 0 and pays(f.size, f.ns)):
        return None
    made = empty(f.dims, f.shape, node.dtype, False)
    f.at[last] = <char*>cnp.PyArray_DATA(made)
    f.passes[last] = True
    f.scratch -= f.bytes[last]
    if f.size > BRIEF_ITEMS:
        with nogil:
            run_few(&f)
    elif f.size > 0:
        run_few(&f)
    for i in range(f.steps):
        if f.step[i].flags:
            node = <Node>f.step[i].node
            report_flags("cast" if node.kind == NODE_CAST else node.what.__name__, f.step[i].flags)
    return made


cdef bint is_few_items(ndarray a) noexcept:
    return cnp.PyArray_NBYTES(a) <= few_bytes


cdef bint is_few(Node node) noexcept:
    """Whether it is one step, which step_by_numpy does faster than a program."""
    cdef int64_t items = 1
    if node.shape is None or node.args == ():
        return False
    if node.kind == NODE_CALL:
        if len(node.resolved.dtypes) - len(node.args) != 1:
            return False
    elif node.kind != NODE_CAST and node.kind != NODE_WHERE:
        return False
    for arg in node.args:
        if (<Node>arg).kind != NODE_INPUT and (<Node>arg).kind != NODE_CONSTANT:
            return False
    for length in node.shape:
        items *= <int64_t>length
    if node.kind == NODE_CALL and node.resolved.loop != NULL and node.resolved.dear and pays(items, DEAR_NS):
        return False
    return items * (<cnp.dtype>node.dtype).itemsize <= few_bytes


cdef object step_by_numpy(Node node):
    """The node's values.  Its arguments have the dtypes of its loop."""
    cdef object first = (<Node>node.args[0]).what
    if node.kind == NODE_CAST:
        return first.astype(node.dtype)
    if len(node.args) == 1:
        return node.what(first)
    if len(node.args) == 2:
        return node.what(first, (<Node>node.args[1]).what)
    return node.what(*[(<Node>arg).what for arg in node.args])


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
    if out is None and len(nodes) == 1:
        few = few_values(n, False)
        if few is not None:
            return [few]
        if is_few(n):
            return [step_by_numpy(n)]
    if out is None:
        outs = [empty_for(node) for node in nodes]
        if len(nodes) > 1 and not all([one.flags.c_contiguous for one in outs]):
            # A pass goes in one order.  Arrays of other orders would be written with gaps, which is slow,
            # and which some loops of NumPy's do wrong (isnan, 2.4.6).
            return [collect([node], None)[0] for node in nodes]
    else:
        outs = [out]
        n = nodes[0]
        check_out(out, n.shape)
        if not np.can_cast(n.dtype, out.dtype, "same_kind"):
            raise TypeError(f"out: cannot cast the result from {n.dtype} to {out.dtype} "
                            "according to the rule 'same_kind'")
        for part in depends(n):
            if (<Node>part).kind == NODE_INPUT and may_overlap(out, (<Node>part).what) and (
                    not same_memory(out, (<Node>part).what)):
                out[...] = collect(nodes, None)[0]
                return [out]
        if overlaps_itself(out) or not (cnp.PyArray_ISALIGNED(out) and out.dtype.isnative):
            out[...] = collect(nodes, None)[0]
            return [out]
    if n.shape is not None and len(n.shape) > MAP_DIMS:
        for i, one in enumerate(outs):
            if not one.flags.c_contiguous:
                one[...] = collect([nodes[i]], np.empty(one.shape, one.dtype.newbyteorder("=")))[0]
                if len(nodes) == 1:
                    return outs
    p = program_of(nodes, outs, False)
    if p is None:
        return [collect([node], o)[0] for node, o in zip(nodes, outs)]
    run_only(p)
    return outs


cdef object empty_for(Node node):
    """Allocated in the memory order in which NumPy would."""
    if len(node.shape) < 2 or all_in_c_order(depends(node), len(node.shape)):
        return empty_of(node.shape, node.dtype)
    # NumPy decides by the strides of each step's operands: as for two elements an axis.
    small = np.asarray(shadow(node))
    order = sorted(range(small.ndim), key=lambda axis: -abs(small.strides[axis]))
    made = empty_of([node.shape[axis] for axis in order], node.dtype)
    return made.transpose(numpys.argsort(order, kind="stable"))


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
        if n.kind == NODE_INPUT or n.kind == NODE_INDEX:
            made[n] = items_at(n)[(slice(0, 2),) * len(n.shape)]
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
    p = program_of(nodes, None, True)
    if p is None:
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
            # The program's own type: of an array in the other byte order it is the machine's.
            outs.append(np.empty(total, p.type_at(p.values[k])))
            c.out[k] = <char*>cnp.PyArray_DATA(<ndarray>outs[k])
        run(<run_fn>collect_write, &c, "what was kept")
    finally:
        collect_free(&c)
    p.end()
    outs = [made.astype((<Node>node).dtype, copy=False) for made, node in zip(outs, nodes)]
    if out is not None:
        check_out(out, outs[0].shape)
        np.copyto(out, outs[0])
        return [out]
    return outs


# ---- positions, counts and effects ------------------------------------------

cdef Items items_of(Node node, Program p) noexcept:
    cdef Items items
    items.slot = p.slots[0]
    items.size = (<cnp.dtype>node.dtype).itemsize
    items.floats = (<cnp.dtype>node.dtype).kind == b"f"
    items.equal = False
    items.value.wide = 0
    return items


cdef ndarray equal_to(Node node):
    """Of a mask that says where an array is equal to a number: the number, if the array's words can
    be compared as they lie there.  None: they cannot, or it is another mask."""
    cdef Node a, value
    cdef cnp.dtype d
    if node.kind != NODE_CALL or node.what is not equal or simd.equal_wide == NULL:
        return None
    a, value = node.args
    if a.kind != NODE_INPUT or value.kind != NODE_CONSTANT or not is_side_by_side(a.what):
        return None
    d = a.dtype
    # A number of another type, as an unsigned one of a signed one, is compared by NumPy's own loop.
    if value.dtype is not None and value.dtype != d:
        return None
    if d.kind not in b"iuf" or d.itemsize not in (4, 8) or not cnp.PyDataType_ISNOTSWAPPED(d):
        return None
    return np.asarray(value.what, d)


cdef bint is_side_by_side(ndarray a) noexcept:
    return cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_ISALIGNED(a)


cdef object find_node(Node node, int which):
    """The position of a true element of one dimension or more, or -1: of a mask, or for FIND_NONZERO and
    FIND_ZERO of what count_node takes."""
    cdef Find f
    cdef ndarray value = None if which == FIND_ZERO else equal_to(node)
    cdef Program p
    if value is not None:
        node = node.args[0]
    p = program_of([node], None, True)
    f.map = &p.m
    f.items = items_of(node, p)
    if value is not None:
        f.items.equal = True
        memcpy(&f.items.value, cnp.PyArray_DATA(value), f.items.size)
    f.which = <FindWhich>which
    # What is computed beyond the hit, and may warn, is the same each time.
    f.grain = p.grain(False)
    if p.m.size == 0:
        p.end()
        return -1
    run(<run_fn>find_run, &f, "the search")
    p.end()
    return i64_load_relaxed(&f.hit)


cdef object count_node(Node node):
    """How many are true: of a mask, or of an array of native numbers of 4 or 8 bytes side by side."""
    cdef CountNonzero c
    cdef Program p = program_of([node], None, True)
    cdef ndarray counts
    cdef int64_t total = 0, i
    if p.m.size == 0:
        p.end()
        return 0
    c.map = &p.m
    c.items = items_of(node, p)
    c.grain = p.grain()
    counts = np.zeros((p.m.size + c.grain - 1) // c.grain, np.int64)
    c.counts = <int64_t*>cnp.PyArray_DATA(counts)
    run(<run_fn>count_nonzero_run, &c, "the count")
    p.end()
    for i in range(cnp.PyArray_SIZE(counts)):
        total += c.counts[i]
    return total


cdef int run_for_effects(Node node) except -1:
    """For what its steps do."""
    return run_only(program_of([node], None, True))
