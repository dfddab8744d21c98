// Masks secrets in a task's output, like src/objects/mask.ts: the longest value that matches at a position becomes `***`. Bytes
// that may be the start of a secret are held back, so that a secret in several pieces is found too. Memory: the values, and per
// stream less than the longest of them.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ork-spawn.h"

struct mask {
  char **values;  // the longest first, none empty
  size_t *lengths;
  size_t count;
  unsigned char first[256];  // 1: a value starts with this byte
};

static struct buffer joined, masked;  // input and output of `scan`, shared by all streams

// Returns NULL when there are no values.
struct mask *mask_create(char **values) {
  size_t count = 0, bytes = 0;
  while (values[count]) bytes += strlen(values[count++]) + 1;
  if (!count) return NULL;
  struct mask *mask = calloc(1, sizeof *mask);
  if (!mask) _exit(1);
  mask->values = calloc(count, sizeof *mask->values);
  mask->lengths = calloc(count, sizeof *mask->lengths);
  char *copy = malloc(bytes);
  if (!mask->values || !mask->lengths || !copy) _exit(1);
  mask->count = count;
  for (size_t i = 0; i < count; i++) {
    mask->values[i] = strcpy(copy, values[i]);
    mask->lengths[i] = strlen(copy);
    mask->first[(unsigned char)*copy] = 1;
    copy += mask->lengths[i] + 1;
  }
  return mask;
}

void mask_free(struct mask *mask) {
  if (!mask) return;
  free(mask->values[0]);
  free(mask->values);
  free(mask->lengths);
  free(mask);
}

// Returns the length of the secret at the start of `data`; 0: none; -1: more bytes are needed to decide.
static ssize_t secret_at(const struct mask *mask, const char *data, size_t length, int last) {
  for (size_t i = 0; i < mask->count; i++) {
    size_t known = mask->lengths[i] < length ? mask->lengths[i] : length;
    if (memcmp(data, mask->values[i], known)) continue;
    if (known == mask->lengths[i]) return known;
    if (!last) return -1;
  }
  return 0;
}

static void add(struct buffer *buffer, const char *data, size_t length) {
  reserve(buffer, length);
  memcpy(buffer->data + buffer->length, data, length);
  buffer->length += length;
}

static void scan(struct stream *stream, const char *data, size_t length, int last) {
  const struct mask *mask = stream->task->mask;
  joined.length = masked.length = 0;
  if (stream->held_len) add(&joined, stream->held, stream->held_len);
  if (length) add(&joined, data, length);
  size_t from = 0, at = 0;
  while (at < joined.length) {
    ssize_t found = mask->first[(unsigned char)joined.data[at]]
                        ? secret_at(mask, joined.data + at, joined.length - at, last)
                        : 0;
    if (found < 0) break;
    if (!found) {
      at++;
      continue;
    }
    add(&masked, joined.data + from, at - from);
    add(&masked, "***", 3);
    from = at += found;
  }
  if (at > from) add(&masked, joined.data + from, at - from);
  stream->held_len = joined.length - at;
  if (stream->held_len) {
    char *grown = realloc(stream->held, stream->held_len);
    if (!grown) _exit(1);
    stream->held = memcpy(grown, joined.data + at, stream->held_len);
  }
  if (masked.length) log_input(stream, masked.data, masked.length);
}

void mask_input(struct stream *stream, const char *data, size_t length) { scan(stream, data, length, 0); }

// Writes the bytes that were held back, at the end of the stream.
void mask_end(struct stream *stream) {
  scan(stream, NULL, 0, 1);
  free(stream->held);
  stream->held = NULL;
}
