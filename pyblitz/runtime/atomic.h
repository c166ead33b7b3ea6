/* C11 atomics as plain functions, one for each type and memory order, so that
 * Cython code says the order by name and never gets the default one.
 *
 * Only what is called exists.  A fence is written in assembly under
 * ThreadSanitizer, which does not model fences: every happens-before edge that
 * the runtime relies on comes from a release operation and the acquire
 * operation that its comment names, never from a fence alone. */
#ifndef PYBLITZ_ATOMIC_H
#define PYBLITZ_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic(uint32_t) pb_atomic_u32;
typedef _Atomic(int64_t) pb_atomic_i64;
typedef _Atomic(uint64_t) pb_atomic_u64;
typedef _Atomic(void *) pb_atomic_ptr;

#define PB_LOAD(T, V, O)                                                       \
  static inline V pb_##T##_load_##O(const pb_atomic_##T *a) {                  \
    return atomic_load_explicit((pb_atomic_##T *)a, memory_order_##O);         \
  }
#define PB_STORE(T, V, O)                                                      \
  static inline void pb_##T##_store_##O(pb_atomic_##T *a, V v) {               \
    atomic_store_explicit(a, v, memory_order_##O);                             \
  }
#define PB_RMW(T, V, F, O)                                                     \
  static inline V pb_##T##_##F##_##O(pb_atomic_##T *a, V v) {                  \
    return PB_C11_##F(a, v, memory_order_##O);                                 \
  }
#define PB_C11_exchange atomic_exchange_explicit
#define PB_C11_fetch_add atomic_fetch_add_explicit
#define PB_C11_fetch_sub atomic_fetch_sub_explicit
#define PB_C11_fetch_or atomic_fetch_or_explicit
#define PB_C11_fetch_and atomic_fetch_and_explicit
/* Strong: true on success.  On failure nothing is learnt but that it failed. */
#define PB_CAS(T, V, NAME, OK, FAIL)                                           \
  static inline int pb_##T##_cas_##NAME(pb_atomic_##T *a, V want, V v) {       \
    return atomic_compare_exchange_strong_explicit(                            \
        a, &want, v, memory_order_##OK, memory_order_##FAIL);                  \
  }

PB_LOAD(u32, uint32_t, relaxed)
PB_LOAD(u32, uint32_t, acquire)
PB_LOAD(u32, uint32_t, seq_cst)
PB_STORE(u32, uint32_t, relaxed)
PB_STORE(u32, uint32_t, release)
PB_STORE(u32, uint32_t, seq_cst)
PB_RMW(u32, uint32_t, fetch_add, seq_cst)
PB_RMW(u32, uint32_t, fetch_or, relaxed)
PB_RMW(u32, uint32_t, exchange, acquire)
PB_RMW(u32, uint32_t, exchange, acq_rel)
PB_CAS(u32, uint32_t, seq_cst, seq_cst, relaxed)

PB_LOAD(i64, int64_t, relaxed)
PB_LOAD(i64, int64_t, acquire)
PB_STORE(i64, int64_t, relaxed)
PB_STORE(i64, int64_t, release)
PB_RMW(i64, int64_t, fetch_add, relaxed)
PB_RMW(i64, int64_t, fetch_add, acquire)
PB_RMW(i64, int64_t, fetch_sub, acq_rel)
PB_RMW(i64, int64_t, fetch_or, acq_rel)
PB_CAS(i64, int64_t, relaxed, relaxed, relaxed)
PB_CAS(i64, int64_t, acquire, acquire, relaxed)
PB_CAS(i64, int64_t, seq_cst, seq_cst, relaxed)

PB_LOAD(u64, uint64_t, relaxed)
PB_LOAD(u64, uint64_t, seq_cst)
PB_STORE(u64, uint64_t, relaxed)
PB_RMW(u64, uint64_t, fetch_add, seq_cst)
PB_RMW(u64, uint64_t, fetch_sub, seq_cst)
PB_RMW(u64, uint64_t, fetch_and, release)
PB_CAS(u64, uint64_t, seq_cst, seq_cst, relaxed)
PB_CAS(u64, uint64_t, acquire, acquire, relaxed)

PB_LOAD(ptr, void *, relaxed)
PB_LOAD(ptr, void *, acquire)
PB_STORE(ptr, void *, relaxed)
PB_STORE(ptr, void *, release)
PB_RMW(ptr, void *, exchange, acquire)
PB_RMW(ptr, void *, exchange, acq_rel)
PB_CAS(ptr, void *, release, release, relaxed)
PB_CAS(ptr, void *, acq_rel, acq_rel, acquire)

static inline void pb_fence_seq_cst(void) {
#if defined(__SANITIZE_THREAD__) && defined(__x86_64__)
  __asm__ volatile("lock; orq $0, (%%rsp)" ::: "memory", "cc");
#elif defined(__SANITIZE_THREAD__) && defined(__aarch64__)
  __asm__ volatile("dmb ish" ::: "memory");
#else
  atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Keeps the compiler from moving memory accesses across it; no instruction. */
static inline void pb_compiler_barrier(void) {
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void pb_spin_hint(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#define pb_likely(x) __builtin_expect(!!(x), 1)
#define pb_unlikely(x) __builtin_expect(!!(x), 0)

/* The first size of a deque, in cells; tests build it with 4 so that growth
 * races theft.  A power of two. */
#ifndef PYBLITZ_DEQUE_CAPACITY
#define PYBLITZ_DEQUE_CAPACITY 64
#endif

/* Fenced pops after which a deque becomes biased towards its owner; 2 in tests. */
#ifndef PYBLITZ_BIAS_AFTER
#define PYBLITZ_BIAS_AFTER 4096
#endif

/* Invariants that runtime/README.md states; checked in debug builds. */
#ifdef PYBLITZ_DEBUG
#define PB_CHECKED 1
#include <stdio.h>
#include <stdlib.h>
#define pb_assert(cond, what)                                                  \
  ((cond) ? (void)0                                                            \
          : (fprintf(stderr, "pyblitz: broken invariant: %s (%s:%d)\n", what,  \
                     __FILE__, __LINE__),                                      \
             abort()))
#else
#define PB_CHECKED 0
/* Nothing is evaluated, but everything is used. */
#define pb_assert(cond, what) ((void)(0 && (cond)), (void)(what))
#endif

#endif
