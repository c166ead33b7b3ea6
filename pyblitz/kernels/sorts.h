/* A sort that may be shared: what sort_stand_ins.h calls. */
#ifndef PYBLITZ_SORTS_H
#define PYBLITZ_SORTS_H
#include <stdatomic.h>
#include <stdint.h>

#define PB_SORTS 128
/* Fewer items are never looked at. */
#define PB_SORT_FROM 16384
#define PB_SORT_CLASSES 64

typedef int (*pb_sort_fn)(void *items, intptr_t n, void *arr);
typedef int (*pb_argsort_fn)(void *items, intptr_t *order, intptr_t n, void *arr);

/* What each way took, in thousandths of a nanosecond an item; 0: not tried yet. */
typedef struct pb_pace {
  _Atomic(int64_t) theirs;
  _Atomic(int64_t) ours;
  _Atomic(int64_t) calls;
} pb_pace;

typedef struct pb_sort {
  pb_sort_fn sort; /* those underneath */
  pb_argsort_fn argsort;
  int kind;   /* a KeyKind: see numbers.pxd */
  int size;   /* bytes of an item */
  int stable;
  int simd; /* the sort underneath has vector instructions */
  pb_pace sorts[PB_SORT_CLASSES]; /* by the logarithm of the number of items */
  pb_pace argsorts[PB_SORT_CLASSES];
  _Atomic(int64_t) calls;
  _Atomic(int64_t) shared;
} pb_sort;

#endif
