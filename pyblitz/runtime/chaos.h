/* Delays and failures at named points, in debug builds: so that what a race needs
 * a preemption for happens all the time.
 *
 * PYBLITZ_CHAOS=RATE or RATE:POINT, from the environment: at one in RATE of the
 * points, or of those whose name begins with POINT, a thread gives way for up to
 * 100 us, or a compare-and-swap that would be tried again fails.  Nothing without
 * it, and nothing at all in other builds. */
#ifndef PYBLITZ_CHAOS_H
#define PYBLITZ_CHAOS_H

#ifdef PYBLITZ_DEBUG
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t pb_chaos_rate;
static char pb_chaos_only[64];

/* When the module is loaded: later, os.environ[...] = ... in another thread may free what
 * getenv reads. */
__attribute__((constructor)) static void pb_chaos_read(void) {
  const char *text = getenv("PYBLITZ_CHAOS");
  const char *colon = text ? strchr(text, ':') : NULL;
  if (text)
    pb_chaos_rate = (uint32_t)atoi(text);
  if (colon)
    strncpy(pb_chaos_only, colon + 1, sizeof pb_chaos_only - 1);
}

static inline uint32_t pb_chaos_strikes(const char *point) {
  static _Thread_local uint32_t state;
  if (pb_chaos_rate == 0 || strncmp(point, pb_chaos_only, strlen(pb_chaos_only)) != 0)
    return 0;
  /* Any seed but 0: threads differ by where this variable is. */
  if (state == 0)
    state = (uint32_t)((uintptr_t)&state >> 4) * 2654435761u | 1;
  state ^= state << 13; /* xorshift32 (Marsaglia 2003) */
  state ^= state >> 17;
  state ^= state << 5;
  return state % pb_chaos_rate == 0 ? state : 0;
}

static inline void pb_chaos(const char *point) {
  uint32_t strikes = pb_chaos_strikes(point);
  if (strikes & 16) {
    struct timespec t = {0, (long)(strikes >> 8) % 100000};
    nanosleep(&t, NULL);
  } else if (strikes) {
    sched_yield();
  }
}
#define pb_chaos_fails(point) (pb_chaos_strikes(point) != 0)
#else
#define pb_chaos(point) ((void)(point))
#define pb_chaos_fails(point) ((void)(point), 0)
#endif

#endif
