"""Atomic types and operations whose names say their memory order.

For every other module of the runtime: there is no ``libc.stdatomic`` in
Cython, and an operation without a named order would be sequentially
consistent without saying so.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from "pyblitz/runtime/atomic.h" nogil:
    ctypedef struct atomic_u32 "pb_atomic_u32":
        pass
    ctypedef struct atomic_i64 "pb_atomic_i64":
        pass
    ctypedef struct atomic_u64 "pb_atomic_u64":
        pass
    ctypedef struct atomic_ptr "pb_atomic_ptr":
        pass

    uint32_t u32_load_relaxed "pb_u32_load_relaxed"(const atomic_u32*)
    uint32_t u32_load_acquire "pb_u32_load_acquire"(const atomic_u32*)
    uint32_t u32_load_seq_cst "pb_u32_load_seq_cst"(const atomic_u32*)
    void u32_store_relaxed "pb_u32_store_relaxed"(atomic_u32*, uint32_t)
    void u32_store_release "pb_u32_store_release"(atomic_u32*, uint32_t)
    void u32_store_seq_cst "pb_u32_store_seq_cst"(atomic_u32*, uint32_t)
    uint32_t u32_exchange_acquire "pb_u32_exchange_acquire"(atomic_u32*, uint32_t)
    uint32_t u32_exchange_acq_rel "pb_u32_exchange_acq_rel"(atomic_u32*, uint32_t)
    uint32_t u32_fetch_add_seq_cst "pb_u32_fetch_add_seq_cst"(atomic_u32*, uint32_t)
    uint32_t u32_fetch_or_relaxed "pb_u32_fetch_or_relaxed"(atomic_u32*, uint32_t)
    bint u32_cas_seq_cst "pb_u32_cas_seq_cst"(atomic_u32*, uint32_t want, uint32_t new)

    int64_t i64_load_relaxed "pb_i64_load_relaxed"(const atomic_i64*)
    int64_t i64_load_acquire "pb_i64_load_acquire"(const atomic_i64*)
    void i64_store_relaxed "pb_i64_store_relaxed"(atomic_i64*, int64_t)
    void i64_store_release "pb_i64_store_release"(atomic_i64*, int64_t)
    int64_t i64_fetch_add_relaxed "pb_i64_fetch_add_relaxed"(atomic_i64*, int64_t)
    int64_t i64_fetch_add_acquire "pb_i64_fetch_add_acquire"(atomic_i64*, int64_t)
    int64_t i64_fetch_sub_acq_rel "pb_i64_fetch_sub_acq_rel"(atomic_i64*, int64_t)
    int64_t i64_fetch_or_acq_rel "pb_i64_fetch_or_acq_rel"(atomic_i64*, int64_t)
    bint i64_cas_acquire "pb_i64_cas_acquire"(atomic_i64*, int64_t want, int64_t new)
    bint i64_cas_relaxed "pb_i64_cas_relaxed"(atomic_i64*, int64_t want, int64_t new)
    bint i64_cas_seq_cst "pb_i64_cas_seq_cst"(atomic_i64*, int64_t want, int64_t new)

    uint64_t u64_load_relaxed "pb_u64_load_relaxed"(const atomic_u64*)
    uint64_t u64_load_seq_cst "pb_u64_load_seq_cst"(const atomic_u64*)
    void u64_store_relaxed "pb_u64_store_relaxed"(atomic_u64*, uint64_t)
    uint64_t u64_fetch_add_seq_cst "pb_u64_fetch_add_seq_cst"(atomic_u64*, uint64_t)
    uint64_t u64_fetch_sub_seq_cst "pb_u64_fetch_sub_seq_cst"(atomic_u64*, uint64_t)
    uint64_t u64_fetch_and_release "pb_u64_fetch_and_release"(atomic_u64*, uint64_t)
    bint u64_cas_seq_cst "pb_u64_cas_seq_cst"(atomic_u64*, uint64_t want, uint64_t new)
    bint u64_cas_acquire "pb_u64_cas_acquire"(atomic_u64*, uint64_t want, uint64_t new)

    void* ptr_load_relaxed "pb_ptr_load_relaxed"(const atomic_ptr*)
    void* ptr_load_acquire "pb_ptr_load_acquire"(const atomic_ptr*)
    void ptr_store_relaxed "pb_ptr_store_relaxed"(atomic_ptr*, void*)
    void ptr_store_release "pb_ptr_store_release"(atomic_ptr*, void*)
    void* ptr_exchange_acquire "pb_ptr_exchange_acquire"(atomic_ptr*, void*)
    void* ptr_exchange_acq_rel "pb_ptr_exchange_acq_rel"(atomic_ptr*, void*)
    bint ptr_cas_release "pb_ptr_cas_release"(atomic_ptr*, void* want, void* new)
    bint ptr_cas_acq_rel "pb_ptr_cas_acq_rel"(atomic_ptr*, void* want, void* new)

    void fence_seq_cst "pb_fence_seq_cst"()
    void compiler_barrier "pb_compiler_barrier"()
    void spin_hint "pb_spin_hint"()

    bint likely "pb_likely"(bint)
    bint unlikely "pb_unlikely"(bint)

    # Whether invariants are checked: for those that cost loads to say.
    bint CHECKED "PB_CHECKED"
    # Aborts in debug builds, compiles to nothing otherwise.
    void invariant "pb_assert"(bint, const char* what)
    int DEQUE_CAPACITY "PYBLITZ_DEQUE_CAPACITY"
    int BIAS_AFTER "PYBLITZ_BIAS_AFTER"
