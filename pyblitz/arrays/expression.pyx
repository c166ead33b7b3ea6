# cython: wraparound=True, boundscheck=True
"""Nodes and programs: see expression.pxd."""
import numpy as np

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport INT64_MAX, int64_t, intptr_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from numpy cimport ndarray, ufunc

from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport (
    Slices, check, fill_map, may_overlap, report_flags, resolve, same_memory)
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.kernels.cast cimport cast_loop
from pyblitz.kernels.collect cimport (
    COLLECTED, Collect, collect_begin, collect_free, collect_place, collect_run, collect_write)
from pyblitz.kernels.find cimport (
    Count, Find, FindWhich, count_run, find_run)
from pyblitz.kernels.map cimport (
    MAP_DIMS, MAP_OPERANDS, MAP_SLOTS, SCRATCH_BYTES, STEP_ARGS, STEP_CALL, STEP_COMPRESS,
    STEP_INDEX, STEP_LOOP, map_grain, map_run, loop_fn)
from pyblitz.kernels.move cimport copy_loop
from pyblitz.kernels.user cimport block_loop, scalar_loop
from pyblitz.kernels.reduce cimport Fold, Reduce, dot_double, dot_float, reduce_run, sum_double, sum_float
from pyblitz.runtime.atomic cimport i64_load_relaxed, u32_load_relaxed
from pyblitz.runtime.pool cimport Worker

cnp.import_array()
cnp.import_umath()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject PyArray_Type
    object PyArray_NewFromDescr(PyTypeObject*, cnp.dtype, int ndim, cnp.npy_intp* shape,
                                cnp.npy_intp* strides, void* data, int flags, PyObject*)

cdef enum:
    # Elements of a block that functions under the GIL are called with.
    CALL_ITEMS = 32768

cdef class _TooLarge(Exception):
    """More operands, registers or steps than a program has room for."""


# ---- nodes ------------------------------------------------------------------

cdef Node new_node(NodeKind kind, object what, tuple args, tuple shape, object dtype,
                   Filter domain):
    cdef Node n = Node.__new__(Node)
    n.kind = kind
    n.what = what
    n.args = args
    n.shape = shape
    n.dtype = dtype
    n.domain = domain
    n.depth = 0
    for arg in args:
        n.depth = max(n.depth, (<Node>arg).depth + 1)
    return n


cdef class Node:
    """One value of an expression."""


cdef class Filter:
    """A mask, and the elements that it keeps."""


cdef Node node_of(object x):
    """Of an array or a number."""
    cdef ndarray a
    if type(x) is int or type(x) is float or type(x) is complex or type(x) is bool:
        return new_node(NODE_CONSTANT, x, (), (), None if type(x) is not bool else np.dtype(bool), None)
    a = x if cnp.PyArray_CheckExact(x) else np.asarray(x)
    return new_node(NODE_CONSTANT if cnp.PyArray_NDIM(a) == 0 else NODE_INPUT, a, (),
                    tuple([cnp.PyArray_DIM(a, i) for i in range(cnp.PyArray_NDIM(a))]), a.dtype, None)


cdef tuple common_shape(tuple nodes):
    """Of nodes of one domain; None in a filtered one."""
    cdef Node n
    shape = ()
    for node in nodes:
        n = node
        if n.kind == NODE_CONSTANT:
            continue
        if n.domain is not None:
            return None
        if n.shape != shape:
            shape = np.broadcast_shapes(shape, n.shape) if shape else n.shape
    return shape


cdef Filter common_domain(tuple nodes):
    cdef Node n
    cdef Filter found = None
    cdef bint first = True
    for node in nodes:
        n = node
        if n.kind == NODE_CONSTANT:
            continue
        if not first and n.domain is not found:
            raise ValueError("elements that were filtered can only be combined with numbers and with "
                             "others of the same filter")
        found = n.domain
        first = False
    return found


cdef list depends(Node node):
    """All nodes that one is made of, itself last."""
    cdef list order = []
    visit(node, set(), order)
    return order


cdef int visit(Node node, set seen, list order) except -1:
    # Not by recursion: a loop may have written an expression of any depth.
    cdef Node n
    cdef list stack = [node]
    while stack:
        n = stack[-1]
        if n in seen:
            stack.pop()
            continue
        waiting = [arg for arg in reversed(n.args) if arg not in seen]
        if n.kind == NODE_KEPT and n.domain.mask not in seen:
            waiting.append(n.domain.mask)
        if waiting:
            stack += waiting
        else:
            seen.add(n)
            order.append(stack.pop())
    return 0


cdef object apply(object fn, tuple args, dict options):
    """What ``fn(*args, **options)`` is, not computed yet: a node, or a tuple of them."""
    cdef list nodes = [], ready = []
    cdef ufunc u = fn
    cdef Resolved r = None
    cdef Node n, one
    cdef list given = []
    cdef bint constant = True
    cdef int i
    cdef object dtype = None
    cdef str casting = "same_kind"
    for a in args:
        n = a if type(a) is Node else node_of(a)
        nodes.append(n)
        constant = constant and n.kind == NODE_CONSTANT
        given.append(type(n.what) if n.dtype is None else n.dtype)
    if constant:
        return as_nodes(fn(*[(<Node>x).what for x in nodes], **options))
    if options:
        dtype = options.get("dtype")
        casting = options.get("casting", "same_kind")
    if u.signature is None and len(nodes) == u.nin and (not options or not set(options) - {"dtype", "casting"}):
        for i in range(u.nout):
            given.append(None)
        r = resolve(u, tuple(given),
                    None if dtype is None else (None,) * u.nin + (np.dtype(dtype),) * u.nout,
                    casting, False)
    if r is None or r.dtypes is None or not r.numeric:
        return at_once(fn, nodes, options)
    for i in range(len(nodes)):
        n = nodes[i]
        want = r.dtypes[i]
        if n.kind == NODE_CONSTANT:
            try:
                value = np.asarray(n.what, want) if n.dtype is None or type(n.what) is bool else n.what.astype(want)
            except OverflowError:
                return at_once(fn, nodes, options)
            n = new_node(NODE_CONSTANT, value, (), (), want, None)
        elif n.dtype is not want and n.dtype != want:
            n = cast(n, want)
        ready.append(n)
    inputs = tuple(ready)
    domain = common_domain(inputs)
    shape = common_shape(inputs)
    if u.nout == 1:
        one = new_node(NODE_CALL, fn, inputs, shape, r.dtypes[u.nin], domain)
        one.resolved = r
        return one
    made = []
    for i in range(u.nout):
        one = new_node(NODE_CALL, fn, inputs, shape, r.dtypes[u.nin + i], domain)
        one.resolved = r
        one.output = i
        made.append(one)
    return tuple(made)


cdef object as_nodes(object result):
    for x in result if isinstance(result, tuple) else (result,):
        if np.asarray(x).dtype.kind not in "biufcmM":
            raise TypeError(f"the result has dtype {np.asarray(x).dtype}; lazy arrays are of numbers or times")
    return tuple([node_of(x) for x in result]) if isinstance(result, tuple) else node_of(result)


cdef object at_once(object fn, list nodes, dict options):
    """By NumPy, on arrays: what no program can do, and what NumPy refuses."""
    # First without elements, so that a refusal costs nothing.
    if fn.signature is None:
        fn(*[(<Node>n).what if (<Node>n).kind == NODE_CONSTANT else np.empty(0, (<Node>n).dtype)
             for n in nodes], **options)
    arrays = [(<Node>n).what if (<Node>n).kind == NODE_CONSTANT else evaluate(n) for n in nodes]
    return as_nodes(fn(*arrays, **options))


cdef object evaluate(Node node):
    return node.what if node.kind == NODE_INPUT else collect([node], None)[0]


cdef Node cast(Node node, object dtype):
    if node.kind == NODE_CONSTANT:
        return node_of(np.asarray(node.what).astype(dtype))
    return new_node(NODE_CAST, None, (node,), node.shape, np.dtype(dtype), node.domain)


cdef Node side_by_side(Node node):
    return new_node(NODE_COPY, None, (node,), node.shape, node.dtype, node.domain)


cdef Node index_node(int64_t n):
    return new_node(NODE_INDEX, (0, 1), (), (n,), np.dtype(np.int64), None)


cdef Node call_kernel(object kernel, tuple args):
    cdef CompiledKernel k = kernel
    cdef Node n
    if len(args) != k.kernel.inputs:
        raise TypeError(f"fn: the kernel {k.signature!r} takes {k.kernel.inputs} arrays, not {len(args)}")
    ready = []
    for i, node in enumerate(args):
        n = node
        if n.dtype != k.dtype:
            raise TypeError(f"fn: the kernel {k.signature!r} takes {k.dtype}, not {n.dtype}")
        # A block kernel knows no gaps.
        if k.block and not (n.kind == NODE_INPUT and n.what.ndim == 1 and n.what.flags.c_contiguous):
            n = side_by_side(n)
        ready.append(n)
    return new_node(NODE_KERNEL, k, tuple(ready), common_shape(args), k.dtype, common_domain(args))


cdef Node call_blocks(NodeKind kind, object fn, tuple args, object dtype):
    return new_node(kind, fn, args, common_shape(args), dtype, common_domain(args))


cdef Filter keep(Node mask):
    cdef Filter f = Filter()
    f.mask = mask
    f.depth = 1 if mask.domain is None else mask.domain.depth + 1
    return f


cdef Node kept(Node node, Filter domain):
    if node.kind == NODE_CONSTANT:
        return node
    cdef Node n = new_node(NODE_KEPT, None, (node,), None, node.dtype, domain)
    n.depth = max(n.depth, domain.mask.depth + 1)
    return n


cdef Node sliced(Node node, object how, dict memo):
    """The expression of ``how(a)`` for each of its arrays: a slice along the first axis,
    or a view of another shape.  Element by element, that is the same."""
    cdef Node n
    cdef Node part
    for p in depends(node):
        part = p
        if part.kind == NODE_CONSTANT:
            memo[part] = part
        elif part.kind == NODE_INPUT or part.kind == NODE_INDEX:
            memo[part] = how(part)
        else:
            n = new_node(part.kind, part.what, tuple([memo[a] for a in part.args]), None, part.dtype, None)
            n.shape = common_shape(n.args)
            n.resolved = part.resolved
            n.output = part.output
            memo[part] = n
    return memo[node]


# ---- calls under the GIL ----------------------------------------------------

cdef class Call:
    """A step that needs the GIL: a function on arrays of one block."""
    cdef object fn
    cdef NodeKind kind
    cdef list dtypes        # of inputs and outputs
    cdef int inputs
    cdef Slices calls

    def _run(self, views, lo):
        ins, outs = views[:self.inputs], views[self.inputs:]
        if self.kind == NODE_CALL:
            self.fn(*ins, out=tuple(outs))
        elif self.kind == NODE_CAST:
            np.copyto(outs[0], ins[0], casting="unsafe")
        else:
            # Copies: the function may keep what it was given.
            copies = [a.copy() for a in ins]
            if self.kind == NODE_LOOK:
                self.fn(*copies)
                outs[0][...] = ins[0]
            else:
                result = np.asarray(self.fn(*copies))
                if result.shape not in ((), ins[0].shape):
                    raise ValueError(f"fn returned an array of shape {result.shape} for a block of shape "
                                     f"{ins[0].shape}; it must be elementwise")
                np.copyto(outs[0], result, casting="same_kind")


cdef int call_step(Worker* w, Step* s, char** args, const intptr_t* steps, int64_t lo,
                   intptr_t n) except -1 nogil:
    with gil:
        run_call(<Call>s.data, args, steps, lo, n)
    return 0


cdef object run_call(Call call, char** args, const intptr_t* steps, int64_t lo, intptr_t n):
    cdef cnp.npy_intp dim = n, stride
    cdef list views = []
    for i, dtype in enumerate(call.dtypes):
        stride = steps[i]
        Py_INCREF(dtype)        # which NumPy takes
        views.append(PyArray_NewFromDescr(
            &PyArray_Type, dtype, 1, &dim, &stride, args[i],
            cnp.NPY_ARRAY_WRITEABLE if i >= call.inputs else 0, NULL))
    try:
        call.calls.context.copy().run(call._run, views, lo)
    finally:
        views.clear()


# ---- programs ---------------------------------------------------------------

cdef class Program:
    """See expression.pxd."""

    def __cinit__(self):
        self.lines = <Line*>malloc(MAX_STEPS * sizeof(Line))
        if self.lines == NULL:
            raise MemoryError("no memory for the program of an expression")
        self.whats = []
        self.resolved = []
        self.operands = []
        self.constants = []
        self.types = []
        self.owners = []
        self.seen = {}

    def __dealloc__(self):
        free(self.lines)
        free(self.steps)

    cdef int operand(self, object array) except -1:
        if len(self.operands) == MAP_OPERANDS:
            raise _TooLarge
        self.operands.append(array)
        return len(self.operands) - 1

    cdef int constant(self, object value) except -1:
        self.constants.append(value)
        return CONSTANT + len(self.constants) - 1

    cdef int register(self, object dtype) except -1:
        if len(self.types) == MAX_REGISTERS:
            raise _TooLarge
        self.types.append(dtype)
        return REGISTER + len(self.types) - 1

    cdef object type_at(self, int where):
        if where >= REGISTER:
            return self.types[where - REGISTER]
        return (<ndarray>(self.constants[where - CONSTANT] if where >= CONSTANT else self.operands[where])).dtype

    cdef Line* line(self, NodeKind kind, object what, Resolved resolved) except NULL:
        cdef Line* l
        if self.n_lines == MAX_STEPS:
            raise _TooLarge
        l = &self.lines[self.n_lines]
        self.n_lines += 1
        l.kind = kind
        l.ins = l.outs = 0
        l.last = False
        self.whats.append(what)
        self.resolved.append(resolved)
        return l

    cdef int converted(self, int where, object dtype) except -1:
        """As ``dtype``: a line of its own."""
        cdef Line* l
        cdef int made
        key = (where, dtype)
        found = self.seen.get(key)
        if found is not None:
            return found
        made = self.register(dtype)
        l = self.line(NODE_CAST, (self.type_at(where), dtype), None)
        l.ins = l.outs = 1
        l.args[0] = where
        l.args[1] = made
        self.seen[key] = made
        return made

    cdef int emit(self, Node node) except -1:
        """The lines of a node; where its value is."""
        cdef Line* l
        cdef int places[STEP_ARGS]
        cdef int i, n, first, outs
        found = self.seen.get(node)
        if found is not None:
            return found
        if node.kind == NODE_INPUT:
            first = self.emit_input(node)
        elif node.kind == NODE_CONSTANT:
            first = self.constant(node.what if isinstance(node.what, ndarray) else np.asarray(node.what))
        elif node.kind == NODE_KEPT:
            raise AssertionError("an element is kept before it is used")
        elif node.kind == NODE_CAST:
            first = self.emit(node.args[0])
            if self.type_at(first) != node.dtype:
                first = self.converted(first, node.dtype)
        elif node.kind == NODE_COPY:
            first = self.in_register(self.emit(node.args[0]))
        else:
            n = len(node.args)
            outs = len(node.resolved.dtypes) - n if node.kind == NODE_CALL else 1
            if n + outs > STEP_ARGS:
                raise _TooLarge
            for i in range(n):
                places[i] = self.emit(node.args[i])
                if node.kind == NODE_KERNEL and (<CompiledKernel>node.what).block and not self.is_row(places[i]):
                    places[i] = self.in_register(places[i])
            # Common subexpressions.  Functions may not be hashable; the node keeps them alive.
            key = (<int>node.kind, node.what if node.kind == NODE_INDEX else id(node.what),
                   places[0] if n > 0 else -1, places[1] if n > 1 else -1, places[2] if n > 2 else -1,
                   None if n <= 3 else tuple([places[i] for i in range(3, n)]),
                   node.dtype if node.resolved is None else node.resolved)
            found = self.seen.get(key)
            if found is not None:
                first = found
            else:
                first = self.register(node.resolved.dtypes[n] if node.kind == NODE_CALL else node.dtype)
                for i in range(1, outs):
                    self.register(node.resolved.dtypes[n + i])
                l = self.line(node.kind, node.what, node.resolved)
                l.ins = n
                l.outs = outs
                for i in range(n):
                    l.args[i] = places[i]
                for i in range(outs):
                    l.args[n + i] = first + i
                self.seen[key] = first
            first += node.output
        self.seen[node] = first
        return first

    cdef bint is_row(self, int where):
        """Whether it lies side by side in every block."""
        return where >= REGISTER or (where < CONSTANT and self.dims == 1
                                     and cnp.PyArray_NDIM(<ndarray>self.operands[where]) == 1
                                     and cnp.PyArray_IS_C_CONTIGUOUS(<ndarray>self.operands[where])
                                     and cnp.PyArray_SIZE(<ndarray>self.operands[where]) > 1)

    cdef int emit_input(self, Node node) except -1:
        cdef ndarray a = node.what
        cdef int found
        for found in range(len(self.operands)):
            if self.operands[found] is a:
                break
        else:
            found = self.operand(a)
        if not cnp.PyArray_ISALIGNED(a) or not cnp.PyArray_ISNOTSWAPPED(a):
            found = self.converted(found, a.dtype.newbyteorder("="))
        return found

    cdef int emit_filters(self, list nodes) except -1:
        """Everything up to the innermost filter of the values."""
        cdef Node n
        cdef Line* l
        cdef list order = []
        cdef set seen = set()
        cdef int i, k, mask, where
        for node in nodes:
            visit(node, seen, order)
        wanted = {}
        for node in order:
            n = node
            if n.kind == NODE_KEPT:
                wanted.setdefault(n.domain, []).append(n)
        for domain in sorted(wanted, key=filter_depth):
            mask = self.in_register(self.emit((<Filter>domain).mask))
            made, kept = {}, {}
            for node in wanted[domain]:
                n = node
                where = self.emit(n.args[0])
                if where not in made:
                    made[where] = self.register(self.type_at(where))
                kept[n] = made[where]
            pairs = list(made.items())
            for i in range(0, len(pairs), 3):
                l = self.line(NODE_KEPT, None, None)
                group = pairs[i:i + 3]
                l.last = i + 3 >= len(pairs)
                l.args[0] = mask
                for k in range(len(group)):
                    l.args[1 + k] = group[k][0]
                    l.args[1 + len(group) + k] = group[k][1]
                l.ins = 1 + len(group)
                l.outs = len(group)
            # What was there before is of another length.
            self.seen = kept
        return 0

    cdef int in_register(self, int where) except -1:
        """The same in memory of the program's own, side by side."""
        return where if where >= REGISTER else self.converted(where, self.type_at(where))

    cdef int finish(self, int n_values, tuple shape, list outs, bint in_order) except -1:
        """Turns the lines into a map.  outs: arrays for the values, or None."""
        cdef Map* m = &self.m
        cdef Line* l
        cdef cnp.npy_intp dims[64]
        cdef int i, k, v, first_out = -1, n_types, n_ops, registers = 0, size_at
        cdef int place[MAX_REGISTERS]       # a slot, when it is known
        cdef int end[MAX_REGISTERS]         # the last line that reads it
        cdef int idle[MAP_SLOTS]            # free registers
        cdef intptr_t sizes[MAP_SLOTS]
        cdef intptr_t size, bytes = 0
        cdef int n_idle = 0
        cdef bint in_place
        for v in range(MAX_REGISTERS):
            place[v] = -1
        if outs is not None:
            first_out = len(self.operands)
            for i in range(n_values):
                # The last step of a value writes where it belongs, if it can.
                if not self.may_write(self.values[i], outs[i], place):
                    self.values[i] = self.copied(self.values[i], outs[i].dtype)
                place[self.values[i] - REGISTER] = self.operand(outs[i])
        n_ops = len(self.operands)
        n_types = len(self.types)
        for v in range(n_types):
            end[v] = -1
        for i in range(self.n_lines):
            l = &self.lines[i]
            for k in range(l.ins + l.outs):
                if l.args[k] >= REGISTER:
                    end[l.args[k] - REGISTER] = i
        for i in range(n_values):
            if self.values[i] >= REGISTER:
                end[self.values[i] - REGISTER] = self.n_lines
        for i in range(self.n_lines):
            l = &self.lines[i]
            # An elementwise loop may write over what it reads.
            in_place = l.kind == NODE_CALL and l.outs == 1
            for k in range(l.ins if in_place else 0):
                n_idle = retire(l.args[k], i, end, place, n_ops, idle, n_idle)
            for k in range(l.ins, l.ins + l.outs):
                v = l.args[k] - REGISTER
                if place[v] >= 0:
                    continue
                size = (<cnp.dtype>self.types[v]).itemsize
                for size_at in range(n_idle):
                    if sizes[idle[size_at] - n_ops] == size:
                        place[v] = idle[size_at]
                        n_idle -= 1
                        idle[size_at] = idle[n_idle]
                        break
                else:
                    if n_ops + registers + len(self.constants) >= MAP_SLOTS:
                        raise _TooLarge
                    place[v] = n_ops + registers
                    sizes[registers] = size
                    registers += 1
                    bytes += size
            if not in_place:
                for k in range(l.ins):
                    n_idle = retire(l.args[k], i, end, place, n_ops, idle, n_idle)
            for k in range(l.ins, l.ins + l.outs):
                n_idle = retire(l.args[k], i, end, place, n_ops, idle, n_idle)
        if n_ops + registers + len(self.constants) > MAP_SLOTS or len(shape) > MAP_DIMS:
            raise _TooLarge
        for k in range(len(shape)):
            dims[k] = shape[k]
        fill_map(m, self.operands, len(shape), dims, -1 if in_order else first_out if first_out >= 0 else 0)
        m.registers = registers
        m.constants = len(self.constants)
        for k in range(n_ops):
            m.sizes[k] = cnp.PyArray_ITEMSIZE(<ndarray>self.operands[k])
        for k in range(registers):
            m.sizes[n_ops + k] = sizes[k]
        for k in range(m.constants):
            m.sizes[n_ops + registers + k] = cnp.PyArray_ITEMSIZE(<ndarray>self.constants[k])
            m.constant[n_ops + registers + k] = <char*>cnp.PyArray_DATA(<ndarray>self.constants[k])
        m.n_steps = self.n_lines
        self.steps = <Step*>calloc(max(self.n_lines, 1), sizeof(Step))
        if self.steps == NULL:
            raise MemoryError("no memory for the program of an expression")
        m.steps = self.steps
        for i in range(self.n_lines):
            self.fill_step(i, place, registers)
        for i in range(n_values):
            self.slots[i] = slot_of(self.values[i], place, n_ops, registers)
        if self.n_lines == 0:
            m.block = INT64_MAX
        elif self.calls is not None:
            m.block = CALL_ITEMS
        elif bytes == 0:
            m.block = INT64_MAX if m.n_steps == 1 else 4096
        else:
            m.block = min(<intptr_t>4096, max(<intptr_t>64, (SCRATCH_BYTES // bytes - 72) & ~<intptr_t>63))
        return 0

    cdef bint may_write(self, int where, object out, int* place):
        """Whether the line that makes a value can write it into ``out``."""
        cdef Line* l
        cdef int i
        if where < REGISTER or place[where - REGISTER] >= 0 or self.type_at(where) != out.dtype:
            return False
        if not out.flags.forc:
            for i in range(self.n_lines):
                l = &self.lines[i]
                if l.kind == NODE_KERNEL and l.args[l.ins] == where and (<CompiledKernel>self.whats[i]).block:
                    return False
        return True

    cdef int copied(self, int where, object dtype) except -1:
        """A line that writes it once more."""
        cdef int made = self.register(dtype)
        cdef Line* l = self.line(NODE_CAST, (self.type_at(where), dtype), None)
        l.ins = l.outs = 1
        l.args[0] = where
        l.args[1] = made
        return made

    cdef int fill_step(self, int i, int* place, int registers) except -1:
        cdef Line* l = &self.lines[i]
        cdef Step* s = &self.steps[i]
        cdef int n_ops = len(self.operands), k
        cdef Resolved r
        cdef CompiledKernel kernel
        what = self.whats[i]
        s.kind = STEP_LOOP
        s.args = l.ins + l.outs
        for k in range(s.args):
            s.slots[k] = slot_of(l.args[k], place, n_ops, registers)
        if l.kind == NODE_CALL:
            r = self.resolved[i]
            if r.loop != NULL:
                s.loop = r.loop
                s.data = r.data
            else:
                self.call(s, l.kind, what, r.dtypes, l.ins)
        elif l.kind == NODE_CAST:
            of, to = what
            aligned = l.args[0] >= CONSTANT or cnp.PyArray_ISALIGNED(<ndarray>self.operands[l.args[0]])
            if of == to:
                s.loop = copy_loop(of.itemsize, of.alignment if aligned else 1)
                s.data = <void*><intptr_t>of.itemsize
            elif aligned and of.isnative and to.isnative:
                s.loop = cast_loop(<char>ord(of.kind), of.itemsize, <char>ord(to.kind), to.itemsize)
            if s.loop == NULL:
                self.call(s, l.kind, None, what, 1)
        elif l.kind == NODE_KEPT:
            s.kind = STEP_COMPRESS
            s.last = l.last
            for k in range(l.outs):
                s.slots[1 + 2 * k] = slot_of(l.args[1 + k], place, n_ops, registers)
                s.slots[2 + 2 * k] = slot_of(l.args[l.ins + k], place, n_ops, registers)
        elif l.kind == NODE_INDEX:
            s.kind = STEP_INDEX
            s.start, s.stride = what
        elif l.kind == NODE_KERNEL:
            kernel = what
            s.loop = block_loop if kernel.block else scalar_loop(
                <char>ord(kernel.dtype.kind), kernel.kernel.itemsize)
            s.data = &kernel.kernel
            self.owners.append(kernel)
        else:
            self.call(s, l.kind, what, [self.type_at(l.args[k]) for k in range(s.args)], l.ins)
        return 0

    cdef bint call(self, Step* s, NodeKind kind, object what, object dtypes, int inputs) except -1:
        cdef Call c = Call()
        cdef str name = "cast" if kind == NODE_CAST else what.__name__ if kind == NODE_CALL else "the expression"
        if self.calls is None:
            self.calls = Slices("the expression", True)
            self.call_name = name
        elif self.call_name != name:
            self.call_name = "the expression"
        c.fn = what
        c.kind = kind
        c.dtypes = list(dtypes)
        c.inputs = inputs
        c.calls = self.calls
        self.owners.append(c)
        s.kind = STEP_CALL
        s.call = <int (*)(Worker*, Step*, char**, const intptr_t*, int64_t, intptr_t) noexcept nogil>call_step
        s.data = <void*>c
        return True

    cdef int64_t grain(self):
        cdef int64_t bytes = 8, found
        for a in self.operands:
            if cnp.PyArray_NDIM(<ndarray>a) > 0:
                bytes += cnp.PyArray_ITEMSIZE(<ndarray>a)
        found = map_grain(bytes)
        if self.calls is not None:
            return max(found, <int64_t>CALL_ITEMS)
        # Several steps take as much longer: a leaf of a block or two is enough.
        return found if self.n_lines < 3 else max(<int64_t>1024, min(found, self.m.block))

    cdef object report(self):
        """What the steps met, in NumPy's words."""
        cdef int i
        cdef uint32_t flags
        for i in range(self.m.n_steps):
            flags = u32_load_relaxed(&self.steps[i].flags)
            if flags:
                what = self.whats[i]
                report_flags("cast" if self.lines[i].kind == NODE_CAST else what.signature
                             if self.lines[i].kind == NODE_KERNEL else what.__name__, flags)
        if self.calls is not None and self.calls.flags.seen:
            report_flags(self.call_name, self.calls.flags.seen)


cdef int retire(int where, int line, const int* end, const int* place, int n_ops, int* idle, int n_idle) noexcept:
    """Its register is free after its last reader."""
    cdef int v = where - REGISTER, k
    if v < 0 or end[v] != line or place[v] < n_ops:
        return n_idle
    for k in range(n_idle):
        if idle[k] == place[v]:
            return n_idle       # named twice by one line
    idle[n_idle] = place[v]
    return n_idle + 1


cdef int slot_of(int where, const int* place, int n_ops, int registers) noexcept:
    if where >= REGISTER:
        return place[where - REGISTER]
    return where if where < CONSTANT else n_ops + registers + where - CONSTANT


def filter_depth(Filter f):
    return f.depth


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
    cdef dict users = {}
    for node in nodes:
        visit(node, seen, order)
        users[node] = 1
    for node in order:
        n = node
        for arg in n.args:
            users[arg] = users.get(arg, 0) + 1
        if n.kind == NODE_KEPT:
            users[n.domain.mask] = users.get(n.domain.mask, 0) + 1
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
            made = again(n, tuple([now[arg] for arg in n.args]), domain)
            if domain is None and is_large(made):
                for arg in n.args:
                    if (<Node>now[arg]).args:
                        now[arg] = node_of(evaluate(now[arg]))
                made = again(n, tuple([now[arg] for arg in n.args]), None)
        now[n] = made
        # What nobody needs any more is freed.
        for arg in n.args + ((n.domain.mask,) if n.kind == NODE_KEPT else ()):
            users[arg] -= 1
            if users[arg] == 0:
                del now[arg]
    return [now[node] for node in nodes]


cdef Node again(Node node, tuple args, Filter domain):
    """The same of other nodes."""
    cdef Node n = new_node(node.kind, node.what, args, None, node.dtype, domain)
    n.shape = common_shape(args) if domain is None else None
    n.resolved = node.resolved
    n.output = node.output
    return n


cdef bint is_large(Node node) except -1:
    """So that a program can do it, and not much more."""
    cdef Node n
    cdef int steps = 0, arrays = 0
    for part in depends(node):
        n = part
        steps += n.args != ()
        arrays += n.kind == NODE_INPUT
    return steps > MAX_STEPS // 4 or arrays > MAP_OPERANDS // 2


cdef Program one_program(list nodes, list outs, bint in_order):
    cdef Program p = Program()
    cdef Node n
    cdef tuple shape = ()
    cdef list order = []
    cdef set seen = set()
    cdef int i = 0, where
    if len(nodes) > COLLECTED:
        raise _TooLarge
    for node in nodes:
        if (<Node>node).depth > MAX_STEPS:
            raise _TooLarge
    # A number is of any domain.
    for node in nodes:
        n = node
        if n.kind != NODE_CONSTANT:
            break
    if n.domain is None:
        shape = common_shape(tuple(nodes)) if len(nodes) > 1 else n.shape
    else:
        # The shape of what is read: that of the domain around all filters.
        for node in nodes:
            visit(node, seen, order)
        shape = common_shape(tuple([n for n in order if (<Node>n).domain is None]))
    p.dims = len(shape)
    if n.domain is not None:
        p.emit_filters(nodes)
    for node in nodes:
        n = node
        where = p.emit(n)
        if outs is None and (n.domain is not None or n.kind == NODE_CONSTANT or (
                n.kind == NODE_INPUT and n.dtype == np.bool_)):
            where = p.in_register(where)
        p.values[i] = where
        i += 1
    p.finish(i, shape, outs, in_order)
    return p


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
        values = [node_of(evaluate(node))]
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
        return op.reduce(evaluate(node), axis=None, **options)
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


cdef str plan_of(list nodes):
    """The steps of the program that computes them, a line each."""
    cdef Program p
    cdef Line* l
    cdef int i, k
    try:
        p = one_program(nodes, None, True)
    except _TooLarge:
        return "  in several passes: too large for one"
    lines = []
    for i in range(p.n_lines):
        l = &p.lines[i]
        what = p.whats[i]
        names = [name_of(p, l.args[k]) for k in range(l.ins)]
        if l.kind == NODE_CAST:
            call = f"{what[1]}({names[0]})"
        elif l.kind == NODE_INDEX:
            call = "index"
        elif l.kind == NODE_KEPT:
            call = f"keep({', '.join(names[1:])} where {names[0]})"
        elif l.kind == NODE_KERNEL:
            call = f"kernel {(<CompiledKernel>what).signature!r} of {', '.join(names)}"
        else:
            call = f"{getattr(what, '__name__', type(what).__name__)}({', '.join(names)})"
            if p.steps[i].kind == STEP_CALL:
                call += "    under the GIL"
        lines.append(f"  {', '.join([name_of(p, l.args[l.ins + k]) for k in range(l.outs)])} = {call}")
    lines += [f"  -> {name_of(p, p.values[i])}" for i in range(len(nodes))]
    if p.n_lines:
        blocks = f"blocks of {p.m.block} elements" if p.m.block != INT64_MAX else "one step"
        lines.append(f"  in {blocks}, {p.m.registers} registers")
    return "\n".join(lines)


cdef str name_of(Program p, int where):
    if where >= REGISTER:
        return f"t{where - REGISTER}"
    if where >= CONSTANT:
        return str(p.constants[where - CONSTANT])
    a = p.operands[where]
    return f"a{where}:{a.dtype}{list(a.shape)}"
