/* Functions in the place of others' sorts, as stand_ins.h has them for loops. */
#ifndef PYBLITZ_SORT_STAND_INS_H
#define PYBLITZ_SORT_STAND_INS_H
#include "pyblitz/kernels/sorts.h"

static pb_sort pb_sorts[PB_SORTS];
/* Set before the first of them is called. */
static int (*pb_sort_shared)(pb_sort *, void *, intptr_t, void *);
static int (*pb_argsort_shared)(pb_sort *, void *, intptr_t *, intptr_t, void *);

#define PB_SORT_1(k)                                                                               \
  static int pb_sort_##k(void *items, intptr_t n, void *arr) {                                     \
    pb_sort *s = &pb_sorts[0x##k];                                                                 \
    if (n < PB_SORT_FROM)                                                                          \
      return s->sort(items, n, arr);                                                               \
    return pb_sort_shared(s, items, n, arr);                                                       \
  }                                                                                                \
  static int pb_argsort_##k(void *items, intptr_t *order, intptr_t n, void *arr) {                 \
    pb_sort *s = &pb_sorts[0x##k];                                                                 \
    if (n < PB_SORT_FROM)                                                                          \
      return s->argsort(items, order, n, arr);                                                     \
    return pb_argsort_shared(s, items, order, n, arr);                                             \
  }
#define PB_SORT_NAME(k) pb_sort_##k,
#define PB_ARGSORT_NAME(k) pb_argsort_##k,
#define PB_SORT_16(X, k)                                                                           \
  X(k##0) X(k##1) X(k##2) X(k##3) X(k##4) X(k##5) X(k##6) X(k##7)                                  \
  X(k##8) X(k##9) X(k##a) X(k##b) X(k##c) X(k##d) X(k##e) X(k##f)
#define PB_SORT_128(X)                                                                             \
  PB_SORT_16(X, 0) PB_SORT_16(X, 1) PB_SORT_16(X, 2) PB_SORT_16(X, 3)                              \
  PB_SORT_16(X, 4) PB_SORT_16(X, 5) PB_SORT_16(X, 6) PB_SORT_16(X, 7)

PB_SORT_128(PB_SORT_1)
static const pb_sort_fn pb_sort_fns[PB_SORTS] = {PB_SORT_128(PB_SORT_NAME)};
static const pb_argsort_fn pb_argsort_fns[PB_SORTS] = {PB_SORT_128(PB_ARGSORT_NAME)};

#endif
