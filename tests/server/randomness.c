// A system without randomness: preloaded into the server, it has none while the file $NO_RANDOMNESS is there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
  static ssize_t (*real)(void *, size_t, unsigned int);
  if (real == NULL) real = (ssize_t (*)(void *, size_t, unsigned int))dlsym(RTLD_NEXT, "getrandom");
  if (access(getenv("NO_RANDOMNESS"), F_OK) == 0) {
    errno = EIO;
    return -1;
  }
  return real(buffer, length, flags);
}
