/* What the runtime needs of the operating system: threads with names, a parker
 * (a one-token semaphore for one thread), a lock latch for threads that have
 * no parker, a clock, yield, floating-point flags, and a hook after fork. */
#ifndef PYBLITZ_OS_H
#define PYBLITZ_OS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pyblitz/runtime/atomic.h"

/* ---- clock ------------------------------------------------------------- */

static inline int64_t pb_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void pb_yield(void) { sched_yield(); }

/* Between two looks of a thread that waits, and does not sleep yet.  A yield takes 0.4 to 0.8 us, in
 * which it sees nothing; without any, whoever it waits for may be waiting for its CPU.
 * looks: at how many others it has looked; last: at how many of them this time. */
enum { PB_LOOKS_PER_YIELD = 16 };
static inline void pb_wait_a_little(uint32_t looks, uint32_t last) {
  if (looks % PB_LOOKS_PER_YIELD < last)
    pb_yield();
  else
    pb_spin_hint();
}

/* ---- a fence in every thread of the process ------------------------------ */

/* membarrier(2), private and expedited: when it returns, every running thread of
 * this process has executed a full fence since it was called (one that was not
 * running did so when it was switched).  Usable once it was registered, which
 * fails where the kernel has none or a sandbox forbids it. */
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/syscall.h>
#endif
#if defined(__linux__) && defined(SYS_membarrier)
enum { PB_MEMBARRIER = 1 << 3, PB_MEMBARRIER_REGISTER = 1 << 4 };
static inline int pb_membarrier_register(void) {
  return syscall(SYS_membarrier, PB_MEMBARRIER_REGISTER, 0, 0) == 0;
}
static inline int pb_membarrier(void) {
  return syscall(SYS_membarrier, PB_MEMBARRIER, 0, 0) == 0;
}
#else
static inline int pb_membarrier_register(void) { return 0; }
static inline int pb_membarrier(void) { return 0; }
#endif

/* ---- memory ------------------------------------------------------------ */

/* Two: adjacent lines are prefetched in pairs. */
enum { PB_CACHE_LINES = 128 };

/* On such a boundary, and not cleared; NULL when there is none. */
static inline void *pb_alloc_lines(size_t size) {
  void *p = NULL;
  size = (size + PB_CACHE_LINES - 1) & ~(size_t)(PB_CACHE_LINES - 1);
  return posix_memalign(&p, PB_CACHE_LINES, size) == 0 ? p : NULL;
}

/* The same, zeroed. */
static inline void *pb_alloc_aligned(size_t size) {
  void *p = pb_alloc_lines(size);
  if (p != NULL)
    __builtin_memset(p, 0, size);
  return p;
}

/* For arrays, which are written from the start: large ones in large pages where the system has
 * them, as NumPy's are.  The first touch of small ones was up to half of a sort's time. */
static inline void *pb_alloc_array(size_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const size_t page = (size_t)1 << 21;
  if (size >= 2 * page) {
    void *p = NULL;
    if (posix_memalign(&p, page, size) != 0)
      return NULL;
    madvise(p, size & ~(page - 1), MADV_HUGEPAGE);
    return p;
  }
#endif
  return malloc(size);
}

/* Between two attempts at what must not fail: others may give memory back. */
static inline void pb_wait_for_memory(void) { usleep(1000); }

/* ---- parker ------------------------------------------------------------ */

/* EMPTY: nobody waits, nothing was sent.  TOKEN: sent, not yet taken.
 * PARKED: the owner is (about to be) blocked.  One thread parks; any may
 * unpark; a token is never lost, so that unpark before park ends the park. */
enum { PB_EMPTY = 0, PB_TOKEN = 1, PB_PARKED = 2 };

#if defined(__linux__) && !defined(PYBLITZ_NO_FUTEX)
#include <linux/futex.h>

typedef struct {
  pb_atomic_u32 state;
} pb_parker;

static inline void pb_parker_init(pb_parker *p) {
  pb_u32_store_relaxed(&p->state, PB_EMPTY);
}
static inline void pb_parker_destroy(pb_parker *p) { (void)p; }

/* Blocks until a token is there and takes it; false after timeout_ns without
 * one (negative: wait for ever). */
static inline int pb_park(pb_parker *p, int64_t timeout_ns) {
  uint32_t seen = PB_EMPTY;
  struct timespec until, *limit = NULL;
  if (!atomic_compare_exchange_strong_explicit(&p->state, &seen, PB_PARKED,
                                               memory_order_acquire,
                                               memory_order_acquire)) {
    pb_u32_exchange_acquire(&p->state, PB_EMPTY); /* took the token of unpark */
    return 1;
  }
  if (timeout_ns >= 0) {
    /* A moment, not a span: each signal interrupts the wait, and a span would
     * begin anew with each. */
    timeout_ns += pb_now_ns();
    until.tv_sec = timeout_ns / 1000000000;
    until.tv_nsec = timeout_ns % 1000000000;
    limit = &until;
  }
  for (;;) {
    long rc = syscall(SYS_futex, &p->state, FUTEX_WAIT_BITSET_PRIVATE, PB_PARKED,
                      limit, NULL, FUTEX_BITSET_MATCH_ANY);
    if (pb_u32_load_relaxed(&p->state) == PB_TOKEN || (rc && errno == ETIMEDOUT))
      /* acquire: partner of the release half of unpark's exchange */
      return pb_u32_exchange_acquire(&p->state, PB_EMPTY) == PB_TOKEN;
  }
}

static inline void pb_unpark(pb_parker *p) {
  if (pb_u32_exchange_acq_rel(&p->state, PB_TOKEN) == PB_PARKED)
    syscall(SYS_futex, &p->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#else

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  int token;
} pb_parker;

static inline void pb_parker_init(pb_parker *p) {
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->cond, NULL);
  p->token = 0;
}
static inline void pb_parker_destroy(pb_parker *p) {
  pthread_cond_destroy(&p->cond);
  pthread_mutex_destroy(&p->lock);
}
static inline int pb_park(pb_parker *p, int64_t timeout_ns) {
  struct timespec until;
  int got, rc = 0;
  if (timeout_ns >= 0) {
    clock_gettime(CLOCK_REALTIME, &until);
    timeout_ns += until.tv_nsec;
    until.tv_sec += timeout_ns / 1000000000;
    until.tv_nsec = timeout_ns % 1000000000;
  }
  pthread_mutex_lock(&p->lock);
  while (!p->token && rc == 0)
    rc = timeout_ns < 0 ? pthread_cond_wait(&p->cond, &p->lock)
                        : pthread_cond_timedwait(&p->cond, &p->lock, &until);
  got = p->token;
  p->token = 0;
  pthread_mutex_unlock(&p->lock);
  return got;
}
static inline void pb_unpark(pb_parker *p) {
  pthread_mutex_lock(&p->lock);
  p->token = 1;
  pthread_cond_signal(&p->cond);
  pthread_mutex_unlock(&p->lock);
}
#endif

/* ---- where a thread wakes ---------------------------------------------- */

/* Linux wakes a thread on its waker's CPU unless it finds another one idle, and in a virtual
 * machine it takes a CPU that has halted for preempted by the host: so for milliseconds a thread that
 * was called in for half of the work takes turns with its caller on one CPU beside an idle one.
 * Therefore the waker narrows the sleeper's CPUs to the others, and the sleeper, once awake, takes
 * back what it had.  Nobody else may touch the place meanwhile. */
#if defined(__linux__) && !defined(PB_MODEL_H)
typedef struct {
  pthread_t thread; /* the owner, and its CPU when it fell asleep */
  int cpu;
  int narrowed;
  cpu_set_t allowed; /* what it had, if it is narrowed */
} pb_place;

/* By the owner, before it can be woken. */
static inline void pb_place_note(pb_place *p) {
  p->thread = pthread_self();
  p->cpu = sched_getcpu();
}

/* By its waker, who works on here.  number: a different one for each owner.  0, or the error. */
static inline int pb_place_elsewhere(pb_place *p, int number) {
  enum { ENOUGH = 3 };
  cpu_set_t others, some;
  int here = sched_getcpu(), cpu, left, rc;
  if (p->narrowed || here < 0 || here >= CPU_SETSIZE)
    return 0;
  rc = pthread_getaffinity_np(p->thread, sizeof p->allowed, &p->allowed);
  if (rc != 0 || !CPU_ISSET(here, &p->allowed) || CPU_COUNT(&p->allowed) < 2)
    return rc;
  others = p->allowed;
  CPU_CLR(here, &others);
  if (p->cpu == here && CPU_COUNT(&others) > ENOUGH) {
    /* If none of them is idle Linux takes the first, for all sleepers. */
    CPU_ZERO(&some);
    left = number % (CPU_COUNT(&others) - ENOUGH + 1);
    for (cpu = 0; CPU_COUNT(&some) < ENOUGH; cpu++)
      if (CPU_ISSET(cpu, &others) && --left < 0)
        CPU_SET(cpu, &some);
    others = some;
  }
  rc = pthread_setaffinity_np(p->thread, sizeof others, &others);
  p->narrowed = rc == 0;
  return rc;
}

/* By the owner, when it was woken.  Whoever may use all CPUs that there are is to have those that
 * come later, too: so not what it had is set, unless that is less. */
static inline void pb_place_take_back(pb_place *p) {
  cpu_set_t all, had;
  if (!p->narrowed)
    return;
  p->narrowed = 0;
  memset(&all, 0xff, sizeof all);
  pthread_setaffinity_np(p->thread, sizeof all, &all);
  if (pthread_getaffinity_np(p->thread, sizeof had, &had) == 0 &&
      !CPU_EQUAL(&had, &p->allowed))
    pthread_setaffinity_np(p->thread, sizeof p->allowed, &p->allowed);
}
#else
typedef struct {
  int narrowed;
} pb_place;
static inline void pb_place_note(pb_place *p) { (void)p; }
static inline int pb_place_elsewhere(pb_place *p, int number) {
  (void)p;
  (void)number;
  return 0;
}
static inline void pb_place_take_back(pb_place *p) { (void)p; }
#endif

/* ---- lock latch -------------------------------------------------------- */

/* For a thread that is no worker.  The setter is done with the latch when it
 * releases the mutex, which the waiter must hold to see it set: so the waiter
 * may free it as soon as the wait returns. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  int set;
} pb_lock_latch;

static inline void pb_lock_latch_init(pb_lock_latch *l) {
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->cond, NULL);
  l->set = 0;
}
static inline void pb_lock_latch_destroy(pb_lock_latch *l) {
  pthread_cond_destroy(&l->cond);
  pthread_mutex_destroy(&l->lock);
}
static inline void pb_lock_latch_set(pb_lock_latch *l) {
  pthread_mutex_lock(&l->lock);
  l->set = 1;
  pthread_cond_broadcast(&l->cond);
  pthread_mutex_unlock(&l->lock);
}
static inline int pb_lock_latch_is_set(pb_lock_latch *l) {
  pthread_mutex_lock(&l->lock);
  int set = l->set;
  pthread_mutex_unlock(&l->lock);
  return set;
}
static inline void pb_lock_latch_wait(pb_lock_latch *l) {
  pthread_mutex_lock(&l->lock);
  while (!l->set)
    pthread_cond_wait(&l->cond, &l->lock);
  pthread_mutex_unlock(&l->lock);
}

/* ---- threads ----------------------------------------------------------- */

typedef pthread_t pb_thread;
typedef struct {
  void (*entry)(void *);
  void *arg;
  char name[16];
} pb_thread_start;

static inline void *pb_thread_main(void *p) {
  pb_thread_start s = *(pb_thread_start *)p;
  free(p);
#if defined(__linux__)
  pthread_setname_np(pthread_self(), s.name);
#elif defined(__APPLE__)
  pthread_setname_np(s.name);
#endif
  s.entry(s.arg);
  return NULL;
}

/* Starts a thread named pyblitz-<number>, on one CPU only if that is not
 * negative.  0, or the error.  Its signal mask is its creator's, as any thread's:
 * with signals blocked, a crash would go past faulthandler, raise(SIGABRT) would
 * return, and processes that a job starts could not be terminated. */
static inline int pb_thread_create(pb_thread *t, void (*entry)(void *),
                                   void *arg, int number, int cpu) {
  int rc = 0;
  pthread_attr_t attr;
  pb_thread_start *s = (pb_thread_start *)malloc(sizeof *s);
  if (!s)
    return ENOMEM;
  s->entry = entry;
  s->arg = arg;
  snprintf(s->name, sizeof s->name, "pyblitz-%d", number % 1000000);
  pthread_attr_init(&attr);
#if defined(__linux__)
  if (cpu >= 0) {
    size_t size = CPU_ALLOC_SIZE(cpu + 1);
    cpu_set_t *one = CPU_ALLOC(cpu + 1);
    rc = one == NULL ? ENOMEM : 0;
    if (one != NULL) {
      CPU_ZERO_S(size, one);
      CPU_SET_S(cpu, size, one);
      rc = pthread_attr_setaffinity_np(&attr, size, one);
      CPU_FREE(one);
    }
  }
#else
  (void)cpu;
#endif
  if (rc == 0)
    rc = pthread_create(t, &attr, pb_thread_main, s);
  pthread_attr_destroy(&attr);
  if (rc)
    free(s);
  return rc;
}
static inline void pb_thread_join(pb_thread t) { pthread_join(t, NULL); }

/* The child of a fork has none of the parent's threads.  Its only duty here is
 * to know that it is another process: nothing else is safe in the handler. */
static inline int pb_atfork_child(void (*child)(void)) {
  return pthread_atfork(NULL, NULL, child);
}

/* ---- floating-point flags ---------------------------------------------- */

enum {
  PB_FE_DIVIDE = 1,
  PB_FE_OVERFLOW = 2,
  PB_FE_UNDERFLOW = 4,
  PB_FE_INVALID = 8
};

/* Not FE_INEXACT, which every loop sets and nobody reports. */
#define PB_FE_REPORTED (FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID)

#if defined(__x86_64__) && !defined(PYBLITZ_NO_MXCSR)
/* What fetestexcept and feclearexcept do, at a tenth of their cost: those save
 * and restore the whole x87 environment.  Both units have the same flag bits. */
static inline unsigned pb_fe_bits(void) {
  unsigned short x87;
  __asm__ volatile("fnstsw %0" : "=am"(x87));
  return x87 | __builtin_ia32_stmxcsr();
}
static inline void pb_fe_clear(void) {
  unsigned short x87;
  unsigned sse = __builtin_ia32_stmxcsr();
  __asm__ volatile("fnstsw %0" : "=am"(x87));
  if (x87 & PB_FE_REPORTED)
    __asm__ volatile("fnclex");
  if (sse & PB_FE_REPORTED)
    __builtin_ia32_ldmxcsr(sse & ~(unsigned)FE_ALL_EXCEPT);
}
#else
static inline unsigned pb_fe_bits(void) {
  return (unsigned)fetestexcept(FE_ALL_EXCEPT);
}
static inline void pb_fe_clear(void) { feclearexcept(FE_ALL_EXCEPT); }
#endif

/* Whether this thread takes subnormal numbers for zeros, as flush-to-zero libraries ask for. */
static inline int pb_denormals_are_zero(void) {
#if defined(__x86_64__)
  return (__builtin_ia32_stmxcsr() & 0x40) != 0;
#else
  return 0;
#endif
}

static inline int pb_fe_test(void) {
  unsigned f = pb_fe_bits() & PB_FE_REPORTED;
  if (!f)
    return 0;
  return ((f & FE_DIVBYZERO) ? PB_FE_DIVIDE : 0) |
         ((f & FE_OVERFLOW) ? PB_FE_OVERFLOW : 0) |
         ((f & FE_UNDERFLOW) ? PB_FE_UNDERFLOW : 0) |
         ((f & FE_INVALID) ? PB_FE_INVALID : 0);
}
static inline void pb_fe_raise(int flags) {
  feraiseexcept(((flags & PB_FE_DIVIDE) ? FE_DIVBYZERO : 0) |
                ((flags & PB_FE_OVERFLOW) ? FE_OVERFLOW : 0) |
                ((flags & PB_FE_UNDERFLOW) ? FE_UNDERFLOW : 0) |
                ((flags & PB_FE_INVALID) ? FE_INVALID : 0));
}

#endif
