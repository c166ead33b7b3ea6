"""Threads that begin, as Python sees it: each makes a thread state, without the GIL."""
from libc.stdint cimport int64_t

from pyblitz.runtime.pool cimport hooks

cdef extern from *:
    """
    #include <pthread.h>

    static int going;
    static int (*begin)(void);

    static void *begin_again(void *unused) {
      while (__atomic_load_n(&going, __ATOMIC_RELAXED))
        begin();
      return NULL;
    }

    static int begin_in_threads(int (*fn)(void), int n) {
      pthread_t thread;
      int failed = 0;
      begin = fn;
      going = 1;
      while (n-- > 0 && !failed) {
        failed = pthread_create(&thread, NULL, begin_again, NULL);
        if (!failed)
          pthread_detach(thread);
      }
      return failed;
    }

    static void stop_beginning(void) { __atomic_store_n(&going, 0, __ATOMIC_RELAXED); }

    /* What Python's own allocator, of states too, has no memory for: the first `refusals` requests
     * of other threads than `fed`. */
    static PyMemAllocatorEx usual;
    static int64_t refusals, refused;
    static pthread_t fed;

    static int refuses(void) {
      if (pthread_equal(pthread_self(), fed)
          || __atomic_load_n(&refused, __ATOMIC_ACQUIRE) >= refusals)
        return 0;
      __atomic_add_fetch(&refused, 1, __ATOMIC_RELEASE);
      return 1;
    }

    static void *raw_malloc(void *ctx, size_t n) {
      return refuses() ? NULL : usual.malloc(ctx, n);
    }
    static void *raw_calloc(void *ctx, size_t k, size_t n) {
      return refuses() ? NULL : usual.calloc(ctx, k, n);
    }

    static void starve_others(int64_t n) {
      PyMemAllocatorEx ours;
      if (usual.malloc == NULL)
        PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &usual);
      fed = pthread_self();
      refused = 0;
      refusals = n;
      ours = usual;
      ours.malloc = raw_malloc;
      ours.calloc = raw_calloc;
      PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &ours);
    }

    static int64_t count_refused(void) { return __atomic_load_n(&refused, __ATOMIC_ACQUIRE); }
    """
    int begin_in_threads(bint (*fn)() noexcept nogil, int n)
    void stop_beginning()
    void starve_others(int64_t n)
    int64_t count_refused()


def start(int n):
    """`n` threads do what a thread of a pool does first, again and again until `stop`; the
    thread states stay."""
    if begin_in_threads(hooks().thread_start, n) != 0:
        raise MemoryError("no threads")


def stop():
    stop_beginning()


def starve(int64_t n):
    """From now on the first ``n`` raw allocations of Python in other threads fail."""
    starve_others(n)


def refused():
    """How many have."""
    return count_refused()
