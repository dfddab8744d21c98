// Reads and writes the fields of the protocol. See ork-spawn.c for the frames.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ork-spawn.h"

void reserve(struct buffer *buffer, size_t more) {
  if (buffer->length + more <= buffer->capacity) return;
  size_t capacity = buffer->capacity ? buffer->capacity : 65536;
  while (capacity < buffer->length + more) capacity *= 2;
  buffer->data = realloc(buffer->data, capacity);
  if (!buffer->data) _exit(1);
  buffer->capacity = capacity;
}

void put(const void *data, size_t length) {
  reserve(&out, length);
  memcpy(out.data + out.length, data, length);
  out.length += length;
}
void put8(uint8_t value) { put(&value, 1); }
void put32(uint32_t value) { put(&value, 4); }
void put64(uint64_t value) { put(&value, 8); }
void put_string(const char *data, uint32_t length) {
  put32(length);
  put(data, length);
  put8(0);
}

size_t begin_frame(uint8_t type, uint32_t id) {
  size_t at = out.length;
  put32(0);
  put8(type);
  put32(id);
  return at;
}
void finish_frame(size_t at) {
  uint32_t length = out.length - at - 4;
  memcpy(out.data + at, &length, 4);
}

// Reads bytes of a request. An incomplete frame is a bug of Ork: the helper exits.
void *read_bytes(struct reader *reader, size_t length) {
  if ((size_t)(reader->end - reader->at) < length) {
    fprintf(stderr, "ork-spawn: broken request\n");
    exit(1);
  }
  void *data = reader->at;
  reader->at += length;
  return data;
}
uint32_t read_u32(struct reader *reader) {
  uint32_t value;
  memcpy(&value, read_bytes(reader, 4), 4);
  return value;
}
uint64_t read_u64(struct reader *reader) {
  uint64_t value;
  memcpy(&value, read_bytes(reader, 8), 8);
  return value;
}
char *read_string(struct reader *reader, uint32_t *length) {
  uint32_t size = read_u32(reader);
  if (length) *length = size;
  return read_bytes(reader, (size_t)size + 1);
}
// Reads a NULL-terminated list with space for `spare` more entries.
char **read_list(struct reader *reader, int spare) {
  uint32_t count = read_u32(reader);
  if (count > FRAME_MAX / 5) exit(1);
  char **list = calloc(count + spare + 1, sizeof *list);
  if (!list) exit(1);
  for (uint32_t i = 0; i < count; i++) list[i] = read_string(reader, NULL);
  return list;
}

// Appends `length` bytes of a file as a string; returns 0 when the file has fewer.
int put_file(int fd, uint64_t offset, uint32_t length) {
  reserve(&out, length + 5);
  if (pread(fd, out.data + out.length + 4, length, offset) != (ssize_t)length) return 0;
  memcpy(out.data + out.length, &length, 4);
  out.length += 4 + length;
  put8(0);
  return 1;
}
