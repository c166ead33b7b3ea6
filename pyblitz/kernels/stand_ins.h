/* Functions in the place of others' inner loops, one for each: a loop is not told which one it
   is, and what its `data` points to belongs to the loop underneath. */
#ifndef PYBLITZ_STAND_INS_H
#define PYBLITZ_STAND_INS_H
#include "pyblitz/kernels/loops.h"

static pb_loop pb_loops[PB_LOOPS] __attribute__((aligned(64)));
/* Set before the first of them is called. */
static void (*pb_share)(pb_loop *, char **, const intptr_t *, const intptr_t *, void *);

#define PB_1(k)                                                                                    \
  static void pb_loop_##k(char **args, const intptr_t *dims, const intptr_t *steps, void *data) {  \
    pb_loop *l = &pb_loops[0x##k];                                                                 \
    /* relaxed: a hint */                                                                          \
    if (dims[0] < atomic_load_explicit(&l->share_from, memory_order_relaxed))                      \
      l->fn(args, dims, steps, data);                                                              \
    else                                                                                           \
      pb_share(l, args, dims, steps, data);                                                        \
  }
#define PB_NAME(k) pb_loop_##k,
#define PB_16(X, k)                                                                                \
  X(k##0) X(k##1) X(k##2) X(k##3) X(k##4) X(k##5) X(k##6) X(k##7)                                  \
  X(k##8) X(k##9) X(k##a) X(k##b) X(k##c) X(k##d) X(k##e) X(k##f)
#define PB_256(X, k)                                                                               \
  PB_16(X, k##0) PB_16(X, k##1) PB_16(X, k##2) PB_16(X, k##3) PB_16(X, k##4) PB_16(X, k##5)        \
  PB_16(X, k##6) PB_16(X, k##7) PB_16(X, k##8) PB_16(X, k##9) PB_16(X, k##a) PB_16(X, k##b)        \
  PB_16(X, k##c) PB_16(X, k##d) PB_16(X, k##e) PB_16(X, k##f)
#define PB_4096(X)                                                                                 \
  PB_256(X, 0) PB_256(X, 1) PB_256(X, 2) PB_256(X, 3) PB_256(X, 4) PB_256(X, 5) PB_256(X, 6)       \
  PB_256(X, 7) PB_256(X, 8) PB_256(X, 9) PB_256(X, a) PB_256(X, b) PB_256(X, c) PB_256(X, d)       \
  PB_256(X, e) PB_256(X, f)

PB_4096(PB_1)
static const pb_loop_fn pb_loop_fns[PB_LOOPS] = {PB_4096(PB_NAME)};

#endif
