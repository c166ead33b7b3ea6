"""Calls from threads that Python does not know, on stacks of any size."""
from pyblitz cimport Scope, Worker, join, parallel_for, run, scope, spawn, submit
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_fetch_add_relaxed, i64_load_acquire, i64_store_relaxed)

cdef extern from *:
    """
    #include <pthread.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>

    enum { PAINT = 0xA5 };

    typedef struct {
      void (*call)(void *);
      void *ctx;
      char *entry;          /* where the stack was when the thread came here */
    } stack_call;

    static void *stack_main(void *p) {
      stack_call *c = (stack_call *)p;
      char here;
      c->entry = &here;
      c->call(c->ctx);
      return NULL;
    }

    /* call(ctx) in a thread with a painted stack of so many bytes above a guard
     * page: how many it used below its first frame, or -1 with errno. */
    static ptrdiff_t on_stack(size_t size, void (*call)(void *), void *ctx) {
      size_t page = (size_t)sysconf(_SC_PAGESIZE);
      stack_call c = {call, ctx, NULL};
      pthread_attr_t attr;
      pthread_t thread;
      ptrdiff_t used = -1;
      char *low = (char *)mmap(NULL, size + page, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (low == MAP_FAILED)
        return -1;
      mprotect(low, page, PROT_NONE);
      memset(low + page, PAINT, size);
      pthread_attr_init(&attr);
      errno = pthread_attr_setstack(&attr, low + page, size);
      if (errno == 0)
        errno = pthread_create(&thread, &attr, stack_main, &c);
      if (errno == 0) {
        char *p = low + page;
        pthread_join(thread, NULL);
        while (p < c.entry && *(unsigned char *)p == PAINT)
          p++;
        used = c.entry - p;
      }
      pthread_attr_destroy(&attr);
      munmap(low, size + page);
      return used;
    }
    #include <errno.h>
    #include <limits.h>
    """
    ptrdiff_t on_stack(size_t, void (*)(void*) noexcept nogil, void*) nogil
    int errno
    enum: PTHREAD_STACK_MIN

cdef enum:
    ITEMS = 1000

cdef struct Calls:
    int what
    atomic_i64 n


cdef int add_one(Worker* w, void* ctx) except? -1 nogil:
    i64_fetch_add_relaxed(<atomic_i64*>ctx, 1)
    return 0

cdef int add_range(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    i64_fetch_add_relaxed(<atomic_i64*>ctx, hi - lo)
    return 0

cdef int add_tasks(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef int i
    for i in range(ITEMS):
        spawn(w, s, add_one, ctx)
    return 0

cdef int fail(Worker* w, void* ctx) except? -1 nogil:
    i64_fetch_add_relaxed(<atomic_i64*>ctx, 1)
    return 7


cdef void nothing(void* ctx) noexcept nogil:
    pass

cdef void call(void* p) noexcept nogil:
    cdef Calls* c = <Calls*>p
    if c.what == 0:
        run(add_one, &c.n)
    elif c.what == 1:
        join(NULL, add_one, &c.n, add_one, &c.n)
    elif c.what == 2:
        parallel_for(NULL, ITEMS, add_range, &c.n, 1)
    elif c.what == 3:
        scope(NULL, add_tasks, &c.n)
    elif c.what == 4:
        submit(add_one, &c.n)
    elif run(fail, &c.n) != 7:
        i64_store_relaxed(&c.n, -1)

WHAT = ["run", "join", "parallel_for", "scope", "submit", "fail"]
LEAST = PTHREAD_STACK_MIN


def stack_of(what, size_t size):
    """(bytes of stack that such a call used, how many kernels it ran)"""
    cdef Calls c
    cdef ptrdiff_t used
    c.what = WHAT.index(what)
    i64_store_relaxed(&c.n, 0)
    with nogil:
        used = on_stack(size, call, &c)
        if used >= 0 and c.what == 4:
            while i64_load_acquire(&c.n) == 0:      # c is this frame's
                pass
    if used < 0:
        raise OSError(errno, "no such thread")
    return used, i64_load_acquire(&c.n)
