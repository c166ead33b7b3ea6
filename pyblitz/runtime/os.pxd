"""Threads, the parker, the lock latch, the clock and floating-point flags.

The only C of the runtime besides the atomics; each is a few lines over POSIX,
with a futex under the parker where Linux has one.
"""
from libc.stdint cimport int64_t, uint32_t

cdef extern from "pyblitz/runtime/os.h" nogil:
    int64_t now_ns "pb_now_ns"()
    void yield_thread "pb_yield"()
    # looks: at how many others it has looked; last: at how many this time.  Each sixteenth time it yields.
    void wait_a_little "pb_wait_a_little"(uint32_t looks, uint32_t last)
    bint membarrier_register "pb_membarrier_register"()
    bint membarrier "pb_membarrier"()
    int CACHE_LINES "PB_CACHE_LINES"
    void* alloc_lines "pb_alloc_lines"(size_t)
    void* alloc_aligned "pb_alloc_aligned"(size_t)
    void* alloc_array "pb_alloc_array"(size_t)
    void wait_for_memory "pb_wait_for_memory"()

    ctypedef struct Parker "pb_parker":
        pass
    void parker_init "pb_parker_init"(Parker*)
    void parker_destroy "pb_parker_destroy"(Parker*)
    bint park "pb_park"(Parker*, int64_t timeout_ns)
    void unpark "pb_unpark"(Parker*)

    ctypedef struct Place "pb_place":
        bint narrowed
    void place_note "pb_place_note"(Place*)
    int place_elsewhere "pb_place_elsewhere"(Place*, int number)
    void place_take_back "pb_place_take_back"(Place*)

    ctypedef struct LockLatch "pb_lock_latch":
        pass
    void lock_latch_init "pb_lock_latch_init"(LockLatch*)
    void lock_latch_destroy "pb_lock_latch_destroy"(LockLatch*)
    void lock_latch_set "pb_lock_latch_set"(LockLatch*)
    void lock_latch_wait "pb_lock_latch_wait"(LockLatch*)
    bint lock_latch_is_set "pb_lock_latch_is_set"(LockLatch*)

    ctypedef struct Thread "pb_thread":
        pass
    int thread_create "pb_thread_create"(Thread*, void (*)(void*) noexcept nogil,
                                         void*, int number, int cpu)
    void thread_join "pb_thread_join"(Thread)
    int atfork_child "pb_atfork_child"(void (*)() noexcept nogil)

    int FE_DIVIDE "PB_FE_DIVIDE"
    int FE_OVERFLOW "PB_FE_OVERFLOW"
    int FE_UNDERFLOW "PB_FE_UNDERFLOW"
    int FE_INVALID "PB_FE_INVALID"
    void fe_clear "pb_fe_clear"()
    int fe_test "pb_fe_test"()
    bint denormals_are_zero "pb_denormals_are_zero"()
    void fe_raise "pb_fe_raise"(int flags)
