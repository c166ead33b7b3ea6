"""Loops over users' compiled functions; see user.pxd."""
from libc.stdint cimport (
    int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t)
from pyblitz.kernels.blocks cimport gather_flags, run_blocks
from pyblitz.kernels.map cimport map_run
from pyblitz.kernels.numbers cimport Number
from pyblitz.runtime.atomic cimport u32_store_relaxed
from pyblitz.runtime.os cimport fe_clear
from pyblitz.runtime.pool cimport hooks

cdef extern from "complex.h":
    pass        # Cython's complex numbers are then C's own

cdef extern from "stdbool.h":
    ctypedef unsigned char c_bool "_Bool"

ctypedef float complex c_complex64
ctypedef double complex c_complex128

ctypedef fused Scalar:
    c_bool
    Number
    c_complex64
    c_complex128


# ---- scalar kernels ---------------------------------------------------------

cdef inline Scalar arg(char** args, const intptr_t* steps, int k, intptr_t i,
                       Scalar* data) noexcept nogil:
    return (<Scalar*>(args[k] + i * steps[k]))[0]


# `like` only names the scalar.
cdef inline void unary_loop(const Kernel* k, char** args, const intptr_t* steps, intptr_t n,
                            Scalar* like) noexcept nogil:
    cdef void* f = k.fn
    cdef void* user = k.user
    cdef bint takes_user = k.takes_user
    cdef Scalar* out
    cdef intptr_t i
    for i in range(n):
        out = <Scalar*>(args[1] + i * steps[1])
        if takes_user:
            out[0] = (<Scalar (*)(Scalar, void*) noexcept nogil>f)(
                arg[Scalar](args, steps, 0, i, like), user)
        else:
            out[0] = (<Scalar (*)(Scalar) noexcept nogil>f)(
                arg[Scalar](args, steps, 0, i, like))


cdef inline void binary_loop(const Kernel* k, char** args, const intptr_t* steps, intptr_t n,
                             Scalar* like) noexcept nogil:
    cdef void* f = k.fn
    cdef void* user = k.user
    cdef bint takes_user = k.takes_user
    cdef Scalar* out
    cdef intptr_t i
    for i in range(n):
        out = <Scalar*>(args[2] + i * steps[2])
        if takes_user:
            out[0] = (<Scalar (*)(Scalar, Scalar, void*) noexcept nogil>f)(
                arg[Scalar](args, steps, 0, i, like), arg[Scalar](args, steps, 1, i, like),
                user)
        else:
            out[0] = (<Scalar (*)(Scalar, Scalar) noexcept nogil>f)(
                arg[Scalar](args, steps, 0, i, like), arg[Scalar](args, steps, 1, i, like))


cdef inline void ternary_loop(const Kernel* k, char** args, const intptr_t* steps, intptr_t n,
                              Scalar* like) noexcept nogil:
    cdef void* f = k.fn
    cdef void* user = k.user
    cdef bint takes_user = k.takes_user
    cdef Scalar* out
    cdef intptr_t i
    for i in range(n):
        out = <Scalar*>(args[3] + i * steps[3])
        if takes_user:
            out[0] = (<Scalar (*)(Scalar, Scalar, Scalar, void*) noexcept nogil>f)(
                arg[Scalar](args, steps, 0, i, like), arg[Scalar](args, steps, 1, i, like),
                arg[Scalar](args, steps, 2, i, like), user)
        else:
            out[0] = (<Scalar (*)(Scalar, Scalar, Scalar) noexcept nogil>f)(
                arg[Scalar](args, steps, 0, i, like), arg[Scalar](args, steps, 1, i, like),
                arg[Scalar](args, steps, 2, i, like))


cdef inline void quaternary_loop(const Kernel* k, char** args, const intptr_t* steps, intptr_t n,
                                 Scalar* like) noexcept nogil:
    cdef void* f = k.fn
    cdef void* user = k.user
    cdef bint takes_user = k.takes_user
    cdef Scalar* out
    cdef intptr_t i
    for i in range(n):
        out = <Scalar*>(args[4] + i * steps[4])
        if takes_user:
            out[0] = (<Scalar (*)(Scalar, Scalar, Scalar, Scalar, void*) noexcept nogil>f)(
                arg[Scalar](args, steps, 0, i, like), arg[Scalar](args, steps, 1, i, like),
                arg[Scalar](args, steps, 2, i, like), arg[Scalar](args, steps, 3, i, like),
                user)
        else:
            out[0] = (<Scalar (*)(Scalar, Scalar, Scalar, Scalar) noexcept nogil>f)(
                arg[Scalar](args, steps, 0, i, like), arg[Scalar](args, steps, 1, i, like),
                arg[Scalar](args, steps, 2, i, like), arg[Scalar](args, steps, 3, i, like))


# `data` is a Kernel*; its type here only names the scalar.
cdef void loop_of(char** args, const intptr_t* dims, const intptr_t* steps,
                  Scalar* data) noexcept nogil:
    cdef const Kernel* k = <const Kernel*>data
    if k.inputs == 1:
        unary_loop[Scalar](k, args, steps, dims[0], data)
    elif k.inputs == 2:
        binary_loop[Scalar](k, args, steps, dims[0], data)
    elif k.inputs == 3:
        ternary_loop[Scalar](k, args, steps, dims[0], data)
    else:
        quaternary_loop[Scalar](k, args, steps, dims[0], data)


# [kind: b i u f c][log2 of the size]
cdef loop_fn loops[5][5]
loops[0][0] = <loop_fn>(loop_of[c_bool])
loops[1][0] = <loop_fn>(loop_of[int8_t])
loops[1][1] = <loop_fn>(loop_of[int16_t])
loops[1][2] = <loop_fn>(loop_of[int32_t])
loops[1][3] = <loop_fn>(loop_of[int64_t])
loops[2][0] = <loop_fn>(loop_of[uint8_t])
loops[2][1] = <loop_fn>(loop_of[uint16_t])
loops[2][2] = <loop_fn>(loop_of[uint32_t])
loops[2][3] = <loop_fn>(loop_of[uint64_t])
loops[3][2] = <loop_fn>(loop_of[float])
loops[3][3] = <loop_fn>(loop_of[double])
loops[4][3] = <loop_fn>(loop_of[c_complex64])
loops[4][4] = <loop_fn>(loop_of[c_complex128])


cdef loop_fn scalar_loop(char kind, int itemsize) noexcept nogil:
    cdef int row = 0, column = 0
    while row < 5 and kind != b"biufc"[row]:
        row += 1
    while column < 5 and itemsize != 1 << column:
        column += 1
    return loops[row][column] if row < 5 and column < 5 else NULL


cdef int scalars_run(Worker* w, Map* m) noexcept nogil:
    return map_run(w, m, 0)


# ---- block kernels ----------------------------------------------------------

cdef void block_loop(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    """On a row without gaps; see ``steps`` of map.pxd."""
    cdef Kernel* k = <Kernel*>data
    cdef intptr_t i = 0, n, size = k.itemsize
    while i < dims[0]:
        n = min(<intptr_t>KERNEL_BLOCK, dims[0] - i)
        call_block(k, args, i * size, n)
        i += n


cdef inline void call_block(Kernel* k, char** a, intptr_t at, intptr_t n) noexcept nogil:
    cdef void* f = k.fn
    cdef void* u = k.user
    if k.inputs == 1:
        (<void (*)(void*, void*, intptr_t, void*) noexcept nogil>f)(a[0] + at, a[1] + at, n, u)
    elif k.inputs == 2:
        (<void (*)(void*, void*, void*, intptr_t, void*) noexcept nogil>f)(
            a[0] + at, a[1] + at, a[2] + at, n, u)
    elif k.inputs == 3:
        (<void (*)(void*, void*, void*, void*, intptr_t, void*) noexcept nogil>f)(
            a[0] + at, a[1] + at, a[2] + at, a[3] + at, n, u)
    else:
        (<void (*)(void*, void*, void*, void*, void*, intptr_t, void*) noexcept nogil>f)(
            a[0] + at, a[1] + at, a[2] + at, a[3] + at, a[4] + at, n, u)


cdef int blocks_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Blocks* b = <Blocks*>ctx
    cdef int64_t at
    fe_clear()
    while lo < hi:
        at = lo * KERNEL_BLOCK
        call_block(&b.kernel, b.base, at * b.kernel.itemsize, min(<int64_t>KERNEL_BLOCK, b.n - at))
        lo += 1
    gather_flags(&b.flags)
    return 0


cdef int blocks_run(Worker* w, Blocks* b) noexcept nogil:
    u32_store_relaxed(&b.flags, 0)
    return run_blocks(w, blocks_leaf, b, 0, (b.n + KERNEL_BLOCK - 1) // KERNEL_BLOCK)


# ---- range kernels ----------------------------------------------------------

cdef int ranges_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Ranges* r = <Ranges*>ctx
    cdef void* f = r.kernel.fn
    cdef int rc = 0
    if r.gives_int:
        if r.kernel.takes_user:
            rc = (<int (*)(intptr_t, intptr_t, void*) noexcept nogil>f)(lo, hi, r.kernel.user)
        else:
            rc = (<int (*)(intptr_t, intptr_t) noexcept nogil>f)(lo, hi)
        # A Cython function of ``except? -1`` may have raised.
        if rc == -1 and not hooks().is_raised():
            rc = MINUS_ONE
    elif r.kernel.takes_user:
        (<void (*)(intptr_t, intptr_t, void*) noexcept nogil>f)(lo, hi, r.kernel.user)
    else:
        (<void (*)(intptr_t, intptr_t) noexcept nogil>f)(lo, hi)
    return rc


cdef int ranges_run(Worker* w, Ranges* r, int64_t n, int64_t grain) noexcept nogil:
    return run_blocks(w, ranges_leaf, r, grain, n)
