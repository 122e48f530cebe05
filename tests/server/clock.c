// A clock that a test sets: preloaded into the server, it adds the seconds in the file $CLOCK_OFFSET to the time. It
// stands still at a moment where the file has "@" and unix seconds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, now);
  if (result != 0 || id != CLOCK_REALTIME) return result;
  long seconds = 0;
  FILE *file = fopen(getenv("CLOCK_OFFSET"), "r");
  if (file != NULL) {
    if (fscanf(file, "@%ld", &seconds) == 1) {
      now->tv_sec = seconds;
      now->tv_nsec = 0;
      seconds = 0;
    } else if (fscanf(file, "%ld", &seconds) != 1) {
      seconds = 0;
    }
    fclose(file);
  }
  now->tv_sec += seconds;
  return 0;
}
