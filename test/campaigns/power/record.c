/*
 * Records what a process writes below a folder, in the order of the calls: LD_PRELOAD with ORK_POWER_ROOT (the folder) and ORK_POWER_LOG
 * (the log, opened for appending). A record is written after its call has succeeded and before the call returns, under one lock, so that
 * everything that the process does afterwards, such as a reply to a client, comes after it in the log. Records of other processes may
 * stand in between.
 *
 * Record: op (1 byte), pid (int32), fd (int32), number (int64: offset, size or flags), length (uint32), then `length` bytes of data or
 * path; little-endian.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, CLOSE, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, LINK, RMDIR };
enum { MAX_FDS = 65536 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Inode of each recorded file; 0: not recorded. libuv closes files by a system call, so a number may stand for another file by now. */
static ino_t tracked[MAX_FDS];
static int log_fd = -1;
static const char *root;
static size_t root_length;

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("ORK_POWER_LOG"), *folder = getenv("ORK_POWER_ROOT");
  if (!path || !folder) return;
  /* Ork erases its environment. */
  root = strdup(folder);
  root_length = strlen(root);
  log_fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

static int below(const char *path) {
  return log_fd >= 0 && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static ino_t inode(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

static int is_tracked(int fd) {
  if (fd < 0 || fd >= MAX_FDS || !tracked[fd]) return 0;
  if (tracked[fd] != inode(fd)) tracked[fd] = 0;
  return tracked[fd] != 0;
}

static void record(char op, int fd, int64_t number, const void *data, uint32_t length) {
  char header[21];
  int32_t ids[2] = {getpid(), fd};
  header[0] = op;
  memcpy(header + 1, ids, 8);
  memcpy(header + 9, &number, 8);
  memcpy(header + 17, &length, 4);
  struct iovec parts[2] = {{header, sizeof header}, {(void *)data, length}};
  static ssize_t (*real)(int, const struct iovec *, int);
  if (!real) real = (ssize_t (*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
  if (real(log_fd, parts, 2) != (ssize_t)(sizeof header + length)) abort();
}

static void record_path(char op, int fd, int64_t number, const char *path) { record(op, fd, number, path, strlen(path)); }

/* Two paths, separated by a NUL. */
static void record_paths(char op, const char *from, const char *to) {
  char both[2 * PATH_MAX + 2];
  size_t first = strlen(from), second = strlen(to);
  memcpy(both, from, first + 1);
  memcpy(both + first + 1, to, second);
  record(op, -1, 0, both, first + 1 + second);
}

/* Begins and ends a recorded call without changing errno. */
#define LOCKED(statement) \
  do { pthread_mutex_lock(&lock); statement; int kept = errno; pthread_mutex_unlock(&lock); errno = kept; } while (0)

static void opened(int fd, const char *path, int flags) {
  if (fd < 0 || fd >= MAX_FDS || !below(path)) return;
  tracked[fd] = inode(fd);
  record_path(OPEN, fd, flags, path);
}

#define OPEN_CALL(name) \
  int name(const char *path, int flags, ...) { \
    REAL(int, name, const char *, int, ...); \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = va_arg(rest, int); \
    va_end(rest); \
    if (!below(path)) return real(path, flags, mode); \
    int fd; \
    LOCKED(fd = real(path, flags, mode); opened(fd, path, flags)); \
    return fd; \
  }
OPEN_CALL(open)
OPEN_CALL(open64)

int close(int fd) {
  REAL(int, close, int);
  if (!is_tracked(fd)) return real(fd);
  int result;
  LOCKED(tracked[fd] = 0; record(CLOSE, fd, 0, "", 0); result = real(fd));
  return result;
}

#define PWRITE_CALL(name, offset_t) \
  ssize_t name(int fd, const void *data, size_t count, offset_t offset) { \
    REAL(ssize_t, name, int, const void *, size_t, offset_t); \
    if (!is_tracked(fd)) return real(fd, data, count, offset); \
    ssize_t done; \
    LOCKED(done = real(fd, data, count, offset); if (done > 0) record(WRITE, fd, offset, data, done)); \
    return done; \
  }
PWRITE_CALL(pwrite, off_t)
PWRITE_CALL(pwrite64, off64_t)

/* The position of the next write. */
static off_t position(int fd) {
  struct stat info;
  if (fcntl(fd, F_GETFL) & O_APPEND) return fstat(fd, &info) == 0 ? info.st_size : 0;
  return lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *data, size_t count) {
  REAL(ssize_t, write, int, const void *, size_t);
  if (!is_tracked(fd)) return real(fd, data, count);
  ssize_t done;
  LOCKED(off_t offset = position(fd); done = real(fd, data, count); if (done > 0) record(WRITE, fd, offset, data, done));
  return done;
}

/* The parts are written one by one, so that each has a record. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, off_t offset) {
  ssize_t total = 0;
  for (int i = 0; i < count; i++) {
    ssize_t done = offset < 0 ? write(fd, parts[i].iov_base, parts[i].iov_len)
                              : pwrite(fd, parts[i].iov_base, parts[i].iov_len, offset + total);
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if ((size_t)done < parts[i].iov_len) break;
  }
  return total;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(ssize_t, writev, int, const struct iovec *, int);
  return is_tracked(fd) ? write_parts(fd, parts, count, -1) : real(fd, parts, count);
}

#define PWRITEV_CALL(name, offset_t) \
  ssize_t name(int fd, const struct iovec *parts, int count, offset_t offset) { \
    REAL(ssize_t, name, int, const struct iovec *, int, offset_t); \
    return is_tracked(fd) ? write_parts(fd, parts, count, offset) : real(fd, parts, count, offset); \
  }
PWRITEV_CALL(pwritev, off_t)
PWRITEV_CALL(pwritev64, off64_t)

#define TRUNCATE_CALL(name, offset_t) \
  int name(int fd, offset_t size) { \
    REAL(int, name, int, offset_t); \
    if (!is_tracked(fd)) return real(fd, size); \
    int result; \
    LOCKED(result = real(fd, size); if (result == 0) record(TRUNCATE, fd, size, "", 0)); \
    return result; \
  }
TRUNCATE_CALL(ftruncate, off_t)
TRUNCATE_CALL(ftruncate64, off64_t)

#define SYNC_CALL(name) \
  int name(int fd) { \
    REAL(int, name, int); \
    if (!is_tracked(fd)) return real(fd); \
    int result; \
    LOCKED(result = real(fd); if (result == 0) record(SYNC, fd, 0, "", 0)); \
    return result; \
  }
SYNC_CALL(fsync)
SYNC_CALL(fdatasync)

#define TWO_PATHS_CALL(name, op) \
  int name(const char *from, const char *to) { \
    REAL(int, name, const char *, const char *); \
    if (!below(from)) return real(from, to); \
    int result; \
    LOCKED(result = real(from, to); if (result == 0) record_paths(op, from, to)); \
    return result; \
  }
TWO_PATHS_CALL(rename, RENAME)
TWO_PATHS_CALL(link, LINK)

#define PATH_CALL(name, op) \
  int name(const char *path) { \
    REAL(int, name, const char *); \
    if (!below(path)) return real(path); \
    int result; \
    LOCKED(result = real(path); if (result == 0) record_path(op, -1, 0, path)); \
    return result; \
  }
PATH_CALL(unlink, UNLINK)
PATH_CALL(rmdir, RMDIR)

int mkdir(const char *path, mode_t mode) {
  REAL(int, mkdir, const char *, mode_t);
  if (!below(path)) return real(path, mode);
  int result;
  LOCKED(result = real(path, mode); if (result == 0) record_path(MKDIR, -1, 0, path));
  return result;
}
