// Writes the log of an attempt: the raw bytes, and an index of 24-byte little-endian records, one per written chunk:
// u64 offset, u64 time in ms since the epoch, u32 length, u32 stream (1 stdout, 2 stderr). The raw bytes are written
// first, so that after a crash only the end of the index is missing. The files are created at the first byte.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ork-spawn.h"

// Opens a file for appending, and creates its folders.
static int open_below(const char *path) {
  int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  int fd = open(path, flags, 0600);
  if (fd >= 0 || errno != ENOENT) return fd;
  char folder[4096];
  if (strlen(path) >= sizeof folder) return -1;
  strcpy(folder, path);
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (mkdir(folder, 0700) && errno != EEXIST) return -1;
    *slash = '/';
  }
  return open(path, flags, 0600);
}

static int write_all(int fd, const char *data, size_t length) {
  while (length) {
    ssize_t wrote = write(fd, data, length);
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    data += wrote;
    length -= wrote;
  }
  return 0;
}

static int open_log(struct task *task) {
  if (task->log_fd >= 0) return 0;
  char index_path[4096];
  if ((size_t)snprintf(index_path, sizeof index_path, "%s.idx", task->log_path) >= sizeof index_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  task->log_fd = open_below(task->log_path);
  if (task->log_fd < 0) return -1;
  task->index_fd = open_below(index_path);
  return task->index_fd < 0 ? -1 : 0;
}

static int is_blank(const char *data, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (data[i] != ' ' && data[i] != '\t' && data[i] != '\r' && data[i] != '\n') return 0;
  return 1;
}

// Updates the position of the last non-blank line of stdout. `data` is at `offset` in the log.
static void track_last_line(struct task *task, const char *data, size_t length, uint64_t offset) {
  const char *end = data + length;
  const char *newline = memrchr(data, '\n', length);
  if (newline) {
    const char *stop = newline;  // end of the current line, going backwards
    for (;;) {
      const char *before = stop == data ? NULL : memrchr(data, '\n', stop - data);
      const char *start = before ? before + 1 : data;
      int first = before == NULL;
      if (!is_blank(start, stop - start) || (first && task->open.length && !task->open_blank)) {
        struct line line = {offset + (start - data), stop - start, 0};
        if (first && task->open.length) {
          line.split = task->open.split || task->open.offset + task->open.length != offset;
          line.offset = task->open.offset;
          line.length += task->open.length;
        }
        task->last = line;
        break;
      }
      if (first) break;
      stop = before;
    }
    task->open.length = 0;
    data = newline + 1;
    offset += data - (end - length);
  }
  size_t rest = end - data;
  if (!rest) return;
  if (!task->open.length) {
    task->open = (struct line){offset, 0, 0};
    task->open_blank = 1;
  } else if (task->open.offset + task->open.length != offset) {
    task->open.split = 1;
  }
  task->open.length += rest;
  if (task->open_blank) task->open_blank = is_blank(data, rest);
}

// Writes a chunk, whatever the limit.
static void append_chunk(struct task *task, uint32_t stream, const char *data, size_t length) {
  struct {
    uint64_t offset, at;
    uint32_t length, stream;
  } record = {task->log_size, wall_ms(), length, stream};
  if (open_log(task) || write_all(task->log_fd, data, length) ||
      write_all(task->index_fd, (const char *)&record, sizeof record)) {
    task->log_errno = errno;  // a full disk must not stop the task: the rest of the log is dropped, and the error reported
    return;
  }
  if (stream == 1) track_last_line(task, data, length, task->log_size);
  task->log_size += length;
}

// Keeps the last non-blank line of stdout in memory, unless it is longer than LINE_BUFFER.
static void keep_last_line(struct task *task, const char *data, size_t length) {
  if (task->skipping) {
    const char *newline = memchr(data, '\n', length);
    if (!newline) return;
    length -= newline + 1 - data;
    data = newline + 1;
    task->skipping = 0;
  }
  char *kept = realloc(task->kept, task->kept_len + length + 1);
  if (!kept) _exit(1);
  memcpy(kept + task->kept_len, data, length);
  size_t total = task->kept_len + length, end = total;
  while (end && is_blank(kept + end - 1, 1)) end--;
  const char *before = memrchr(kept, '\n', end), *newline = memchr(kept + end, '\n', total - end);
  size_t start = !end ? total : before ? (size_t)(before + 1 - kept) : 0;
  size_t stop = newline && end ? (size_t)(newline + 1 - kept) : total;
  task->kept = kept;
  task->kept_len = stop - start;
  memmove(kept, kept + start, task->kept_len);
  if (task->kept_len <= LINE_BUFFER) return;
  task->skipping = !newline;
  task->kept_len = 0;
}

static void put_chunk(struct stream *stream, const char *data, size_t length) {
  struct task *task = stream->task;
  if (!length || !task->log_path || task->log_errno) return;
  if (!task->log_full && task->log_size + length > task->max_log) {
    char note[160];
    snprintf(note, sizeof note,
             "\nork: the log is longer than %llu MiB: the rest is dropped, except for the last line of stdout\n",
             (unsigned long long)task->max_log >> 20);
    append_chunk(task, 2, note, strlen(note));
    task->log_full = 1;
    if (task->open.length) {  // the end of this line will not be written
      task->last = task->open = (struct line){0, 0, 0};
      task->skipping = 1;
    }
  }
  if (!task->log_full) append_chunk(task, stream->number, data, length);
  else if (stream->number == 1) keep_last_line(task, data, length);
}

void log_flush(struct stream *stream) {
  put_chunk(stream, stream->pending, stream->pending_len);
  free(stream->pending);
  stream->pending = NULL;
  stream->pending_len = 0;
}

// Buffers the start of a line, or writes it if it is too long.
static void buffer_partial(struct stream *stream, const char *data, size_t length) {
  if (!length) return;
  if (stream->pending_len + length >= LINE_BUFFER) {
    log_flush(stream);
    put_chunk(stream, data, length);
    return;
  }
  char *grown = realloc(stream->pending, stream->pending_len + length);
  if (!grown) {
    log_flush(stream);
    put_chunk(stream, data, length);
    return;
  }
  if (!stream->pending_len) stream->pending_since = monotonic_ms();
  memcpy(grown + stream->pending_len, data, length);
  stream->pending = grown;
  stream->pending_len += length;
}

void log_input(struct stream *stream, const char *data, size_t length) {
  const char *newline = memrchr(data, '\n', length);
  if (!newline) {
    buffer_partial(stream, data, length);
    return;
  }
  size_t whole = newline + 1 - data;
  if (stream->pending_len) {
    // The rest of a buffered line is written together with its start, in one chunk.
    char *grown = realloc(stream->pending, stream->pending_len + whole);
    if (grown) {
      memcpy(grown + stream->pending_len, data, whole);
      stream->pending = grown;
      stream->pending_len += whole;
      log_flush(stream);
    } else {
      log_flush(stream);
      put_chunk(stream, data, whole);
    }
  } else {
    put_chunk(stream, data, whole);
  }
  buffer_partial(stream, data + whole, length - whole);
}

void log_close(struct task *task) {
  for (int i = 0; i < 2; i++) {
    if (task->mask) mask_end(&task->streams[i]);
    log_flush(&task->streams[i]);
  }
  if (task->kept_len && !task->log_errno) append_chunk(task, 1, task->kept, task->kept_len);
  free(task->kept);
  if (task->open.length && !task->open_blank) task->last = task->open;
  struct stat info;
  if (task->log_fd >= 0 && !task->log_errno && !fstat(task->log_fd, &info) && !info.st_nlink) task->log_errno = ENOENT;
  if (task->log_fd >= 0) close(task->log_fd);
  if (task->index_fd >= 0) close(task->index_fd);
}
