/* A loop that may be shared: what stand_ins.h calls. */
#ifndef PYBLITZ_LOOPS_H
#define PYBLITZ_LOOPS_H
#include <stdatomic.h>
#include <stdint.h>

#define PB_LOOPS 4096

typedef void (*pb_loop_fn)(char **args, const intptr_t *dims, const intptr_t *steps, void *data);

typedef struct pb_loop {
  pb_loop_fn fn;               /* the loop underneath */
  _Atomic(int64_t) share_from; /* a call of so many items may be worth sharing */
  /* What follows is read by such calls only. */
  struct pb_loop_kind *kind;
  _Atomic(int64_t) calls; /* of so many items */
  _Atomic(int64_t) shared;
  _Atomic(int64_t) learnt; /* share_from, as found out, while it does not count */
  char room[16]; /* a line each: one loop's counts do not slow another's calls */
} pb_loop;

#endif
