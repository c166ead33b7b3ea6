/* Two operations of arithmetic in one pass: (x FIRST y) SECOND z, without memory for what is between.
 *
 * The same numbers as of one after the other: each is rounded for itself, and integers wrap.  Of two
 * NaNs the first operand's stays, at each level: compilers take the operands of + and * in any order. */
#ifndef PYBLITZ_PAIRS_H
#define PYBLITZ_PAIRS_H

#include <stdint.h>
#include <string.h>

/* As loop_fn: x, y, z and the result. */
typedef void (*pb_pair_loop)(char **args, const intptr_t *dims,
                             const intptr_t *steps, void *unused);

/* The numbers of the operations: + * - /; and of a second one whose operands are the other way round,
 * as in z - between, PB_TURNED more. */
enum { PB_FIRSTS = 4, PB_SECONDS = 8, PB_TURNED = 4 };
/* NULL: there is none, as there is no division of integers. */
typedef struct {
  pb_pair_loop floats[PB_FIRSTS][PB_SECONDS], doubles[PB_FIRSTS][PB_SECONDS],
      narrow[PB_FIRSTS][PB_SECONDS], wide[PB_FIRSTS][PB_SECONDS];
} pb_pairs;

/* Where the vectors of x, y and z begin, and how far the next one is. */
typedef struct {
  const char *from[3];
  intptr_t by[3];
  char same[3][32] __attribute__((aligned(32))); /* a number that is the same for all items */
} pb_pair_operands;

/* Whether vectors of so many bytes can be read and written: items lie side by side, or there is but one. */
static __attribute__((noinline)) int
pb_pair_rows(pb_pair_operands *o, char **args, const intptr_t *steps, intptr_t size, intptr_t width) {
  intptr_t i;
  int k;
  for (k = 0; k < 3; k++) {
    o->from[k] = args[k];
    o->by[k] = width;
    if (steps[k] == 0) {
      for (i = 0; i < width; i += size)
        memcpy(o->same[k] + i, args[k], size);
      o->from[k] = o->same[k];
      o->by[k] = 0;
    } else if (steps[k] != size)
      return 0;
  }
  return steps[3] == size;
}

/* Gives p's NaNs to q: then an operation on both has these, whatever their order is. */
#define PB_PAIR_NANS(p, q)                                                    \
  {                                                                           \
    const __typeof__(p != p) nans = p != p;                                   \
    q = (__typeof__(q))(((__typeof__(nans))p & nans) | ((__typeof__(nans))q & ~nans)); \
  }

/* w is x OP y.  LAST: what becomes of w and z.  ANY: whether the order of x and y is the compiler's;
 * THEN: the same of w and z, 1 where w is the first one, 2 where z is; else 0. */
#define PB_PAIR(NAME, T, WIDTH, ATTR, OP, ANY, THEN, LAST)                    \
  static ATTR void NAME(char **args, const intptr_t *dims,                    \
                        const intptr_t *steps, void *unused) {                \
    typedef T v __attribute__((vector_size(WIDTH)));                          \
    enum { ITEMS = WIDTH / sizeof(T), SIZE = sizeof(T) };                     \
    pb_pair_operands o;                                                       \
    char *to = args[3];                                                       \
    intptr_t i = 0, n = dims[0];                                              \
    (void)unused;                                                             \
    if (n >= ITEMS && pb_pair_rows(&o, args, steps, SIZE, WIDTH)) {           \
      const char *a = o.from[0], *b = o.from[1], *c = o.from[2];              \
      const intptr_t a_by = o.by[0], b_by = o.by[1], c_by = o.by[2];          \
      for (; i + ITEMS <= n; i += ITEMS) {                                    \
        v x, y, z, w;                                                         \
        memcpy(&x, a, WIDTH);                                                 \
        memcpy(&y, b, WIDTH);                                                 \
        memcpy(&z, c, WIDTH);                                                 \
        if (ANY)                                                              \
          PB_PAIR_NANS(x, y)                                                  \
        w = x OP y;                                                           \
        if (THEN == 1)                                                        \
          PB_PAIR_NANS(w, z)                                                  \
        if (THEN == 2)                                                        \
          PB_PAIR_NANS(z, w)                                                  \
        w = LAST;                                                             \
        memcpy(to, &w, WIDTH);                                                \
        a += a_by;                                                            \
        b += b_by;                                                            \
        c += c_by;                                                            \
        to += WIDTH;                                                          \
      }                                                                       \
    }                                                                         \
    for (; i < n; i++) {                                                      \
      T x, y, z, w;                                                           \
      memcpy(&x, args[0] + i * steps[0], SIZE);                               \
      memcpy(&y, args[1] + i * steps[1], SIZE);                               \
      memcpy(&z, args[2] + i * steps[2], SIZE);                               \
      y = ANY && x != x ? x : y;                                              \
      w = x OP y;                                                             \
      /* What it meets counts, also where z is a NaN and takes its place. */  \
      if (THEN == 2)                                                          \
        __asm__ volatile("" : "+m"(w));                                       \
      z = THEN == 1 && w != w ? w : z;                                        \
      w = THEN == 2 && z != z ? z : w;                                        \
      w = LAST;                                                               \
      memcpy(args[3] + i * steps[3], &w, SIZE);                               \
    }                                                                         \
  }

#define PB_PAIRS_RING(NAME, T, WIDTH, ATTR, OP, ANY)                          \
  PB_PAIR(NAME##_add, T, WIDTH, ATTR, OP, ANY, 1, w + z)                      \
  PB_PAIR(NAME##_multiply, T, WIDTH, ATTR, OP, ANY, 1, w * z)                 \
  PB_PAIR(NAME##_subtract, T, WIDTH, ATTR, OP, ANY, 0, w - z)                 \
  PB_PAIR(NAME##_from, T, WIDTH, ATTR, OP, ANY, 0, z - w)
#define PB_PAIRS_FIELD(NAME, T, WIDTH, ATTR, OP, ANY)                         \
  PB_PAIRS_RING(NAME, T, WIDTH, ATTR, OP, ANY)                                \
  PB_PAIR(NAME##_divide, T, WIDTH, ATTR, OP, ANY, 0, w / z)                   \
  PB_PAIR(NAME##_onto, T, WIDTH, ATTR, OP, ANY, 2, z + w)                     \
  PB_PAIR(NAME##_times, T, WIDTH, ATTR, OP, ANY, 2, z * w)                    \
  PB_PAIR(NAME##_into, T, WIDTH, ATTR, OP, ANY, 0, z / w)

#define PB_PAIRS_FLOATS(NAME, T, WIDTH, ATTR)                                 \
  PB_PAIRS_FIELD(NAME##_add, T, WIDTH, ATTR, +, 1)                            \
  PB_PAIRS_FIELD(NAME##_multiply, T, WIDTH, ATTR, *, 1)                       \
  PB_PAIRS_FIELD(NAME##_subtract, T, WIDTH, ATTR, -, 0)                       \
  PB_PAIRS_FIELD(NAME##_divide, T, WIDTH, ATTR, /, 0)
#define PB_PAIRS_INTEGERS(NAME, T, WIDTH, ATTR)                               \
  PB_PAIRS_RING(NAME##_add, T, WIDTH, ATTR, +, 0)                             \
  PB_PAIRS_RING(NAME##_multiply, T, WIDTH, ATTR, *, 0)                        \
  PB_PAIRS_RING(NAME##_subtract, T, WIDTH, ATTR, -, 0)

#define PB_RING_OF(NAME)                                                      \
  {NAME##_add, NAME##_multiply, NAME##_subtract, NULL,                        \
   NAME##_add, NAME##_multiply, NAME##_from, NULL}
#define PB_FIELD_OF(NAME)                                                     \
  {NAME##_add, NAME##_multiply, NAME##_subtract, NAME##_divide,               \
   NAME##_onto, NAME##_times, NAME##_from, NAME##_into}
#define PB_RINGS_OF(NAME)                                                     \
  {PB_RING_OF(NAME##_add), PB_RING_OF(NAME##_multiply), PB_RING_OF(NAME##_subtract), {NULL}}
#define PB_FIELDS_OF(NAME)                                                    \
  {PB_FIELD_OF(NAME##_add), PB_FIELD_OF(NAME##_multiply),                     \
   PB_FIELD_OF(NAME##_subtract), PB_FIELD_OF(NAME##_divide)}

#define PB_PAIRS_LEVEL(LEVEL, WIDTH, ATTR)                                    \
  PB_PAIRS_FLOATS(pb_float_##LEVEL##_pair, float, WIDTH, ATTR)                \
  PB_PAIRS_FLOATS(pb_double_##LEVEL##_pair, double, WIDTH, ATTR)              \
  PB_PAIRS_INTEGERS(pb_narrow_##LEVEL##_pair, uint32_t, WIDTH, ATTR)          \
  PB_PAIRS_INTEGERS(pb_wide_##LEVEL##_pair, uint64_t, WIDTH, ATTR)            \
  PB_PAIRS_TABLE(LEVEL, LEVEL, LEVEL)
/* WIDE: the level of the integers of 8 bytes. */
#define PB_PAIRS_TABLE(LEVEL, REST, WIDE)                                     \
  static const pb_pairs pb_pairs_##LEVEL = {                                  \
      PB_FIELDS_OF(pb_float_##REST##_pair), PB_FIELDS_OF(pb_double_##REST##_pair), \
      PB_RINGS_OF(pb_narrow_##REST##_pair), PB_RINGS_OF(pb_wide_##WIDE##_pair)};

#endif
