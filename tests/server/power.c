// What a disk is sent: preloaded into the server, it notes in the file $POWER_TRACE what is written, cut, synced, made,
// renamed and removed below $POWER_ROOT, in this order. Nothing is really synced: the test decides what stays.
//
// A note is a line, "operation inode offset bytes path", and for W the bytes after it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS 65536
#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static ino_t inodes[DESCRIPTORS];
static int trace = -1;

static int is_inside(const char *path) {
  const char *root = getenv("POWER_ROOT");
  return root != NULL && strncmp(path, root, strlen(root)) == 0;
}

static void note(char operation, ino_t inode, long offset, const void *data, size_t bytes, const char *path) {
  if (trace < 0) trace = (int)syscall(SYS_openat, AT_FDCWD, getenv("POWER_TRACE"), O_WRONLY | O_APPEND | O_CREAT, 0600);
  char head[8400];
  int length = snprintf(head, sizeof head, "%c %lu %ld %zu %s\n", operation, (unsigned long)inode, offset, bytes, path);
  struct iovec parts[2] = {{head, (size_t)length}, {(void *)data, data == NULL ? 0 : bytes}};
  if (writev(trace, parts, 2) < 0) abort();
}

static int opened(const char *path, int flags, mode_t mode) {
  int is_new = is_inside(path) && access(path, F_OK) != 0;
  int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  if (descriptor < 0 || descriptor >= DESCRIPTORS || !is_inside(path)) return descriptor;
  struct stat found;
  if (fstat(descriptor, &found) != 0) return descriptor;
  inodes[descriptor] = found.st_ino;
  if (S_ISDIR(found.st_mode)) inodes[descriptor] = 0;
  else if (is_new) note('C', found.st_ino, 0, NULL, 0, path);
  else if (flags & O_TRUNC) note('T', found.st_ino, 0, NULL, 0, path);
  return descriptor;
}

#define OPEN(name)                                   \
  int name(const char *path, int flags, ...) {       \
    va_list more;                                    \
    va_start(more, flags);                           \
    mode_t mode = (flags & O_CREAT) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                    \
    return opened(path, flags, mode);                \
  }
OPEN(open)
OPEN(open64)

static ino_t inode_of(int descriptor) {
  return descriptor >= 0 && descriptor < DESCRIPTORS ? inodes[descriptor] : 0;
}

int close(int descriptor) {
  REAL(close);
  if (descriptor >= 0 && descriptor < DESCRIPTORS) inodes[descriptor] = 0;
  return real(descriptor);
}

ssize_t write(int descriptor, const void *data, size_t bytes) {
  REAL(write);
  ino_t inode = inode_of(descriptor);
  long offset = inode == 0 ? 0 : lseek(descriptor, 0, SEEK_CUR);
  ssize_t written = real(descriptor, data, bytes);
  if (inode != 0 && written > 0) note('W', inode, offset, data, (size_t)written, "");
  return written;
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset) {
  REAL(pwrite64);
  ssize_t written = real(descriptor, data, bytes, offset);
  ino_t inode = inode_of(descriptor);
  if (inode != 0 && written > 0) note('W', inode, offset, data, (size_t)written, "");
  return written;
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
  return pwrite64(descriptor, data, bytes, offset);
}

int ftruncate64(int descriptor, off64_t bytes) {
  REAL(ftruncate64);
  int result = real(descriptor, bytes);
  ino_t inode = inode_of(descriptor);
  if (inode != 0 && result == 0) note('T', inode, bytes, NULL, 0, "");
  return result;
}

int ftruncate(int descriptor, off_t bytes) {
  return ftruncate64(descriptor, bytes);
}

int fsync(int descriptor) {
  struct stat found;
  char link[64], path[4096];
  if (fstat(descriptor, &found) != 0) return -1;
  if (!S_ISDIR(found.st_mode)) {
    note('S', found.st_ino, 0, NULL, 0, "");
    return 0;
  }
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return -1;
  path[length] = 0;
  note('D', 0, 0, NULL, 0, path);
  return 0;
}

int fdatasync(int descriptor) {
  return fsync(descriptor);
}

int unlink(const char *path) {
  REAL(unlink);
  int result = real(path);
  if (result == 0 && is_inside(path)) note('U', 0, 0, NULL, 0, path);
  return result;
}

int rename(const char *from, const char *to) {
  REAL(rename);
  struct stat found;
  int result = real(from, to);
  if (result != 0 || !is_inside(to) || stat(to, &found) != 0) return result;
  char paths[8200];
  snprintf(paths, sizeof paths, "%s\t%s", from, to);
  note('R', found.st_ino, 0, NULL, 0, paths);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  int result = real(path, mode);
  if (result == 0 && is_inside(path)) note('M', 0, 0, NULL, 0, path);
  return result;
}
