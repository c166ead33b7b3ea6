"""Threads that begin, as Python sees it: each makes a thread state, without the GIL."""
from pyblitz.runtime.pool cimport hooks

cdef extern from *:
    """
    #include <pthread.h>

    static int going;
    static void (*begin)(void);

    static void *begin_again(void *unused) {
      while (__atomic_load_n(&going, __ATOMIC_RELAXED))
        begin();
      return NULL;
    }

    static int begin_in_threads(void (*fn)(void), int n) {
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
    """
    int begin_in_threads(void (*fn)() noexcept nogil, int n)
    void stop_beginning()


def start(int n):
    """`n` threads do what a thread of a pool does first, again and again until `stop`; the
    thread states stay."""
    if begin_in_threads(hooks().thread_start, n) != 0:
        raise MemoryError("no threads")


def stop():
    stop_beginning()
