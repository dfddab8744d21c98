// A library that Ork loads into its own process, so that its secrets stay in it: removes the environment from
// /proc/PID/environ, and forbids other processes of the same user to read the memory (not dumpable).
//
// It is a module of Node.js without its headers: Node.js calls napi_register_module_v1 when it loads the library.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ENV_START 50  // fields of /proc/PID/stat, counted from 1
#define AFTER_NAME 3

// Reads the addresses between which the kernel put the environment. Returns 0 on failure.
static int find_environment(char **start, char **end) {
  char text[4096];
  FILE *file = fopen("/proc/self/stat", "re");
  if (!file) return 0;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = 0;
  char *at = strrchr(text, ')');  // the name may contain anything
  for (int field = AFTER_NAME; at && field <= ENV_START; field++) at = strchr(at + 1, ' ');
  unsigned long first, last;
  if (!at || sscanf(at, " %lu %lu", &first, &last) != 2 || !first || last <= first) return 0;
  *start = (char *)first;
  *end = (char *)last;
  return 1;
}

static void conceal(void) {
  char *start, *end;
  if (find_environment(&start, &end)) {
    for (char **entry = environ; entry && *entry; entry++) {
      if (*entry < start || *entry >= end) continue;
      char *copy = strdup(*entry);
      if (!copy) return;
      *entry = copy;
    }
    memset(start, 0, end - start);
  }
  prctl(PR_SET_DUMPABLE, 0);
}

void *napi_register_module_v1(void *env, void *exports) {
  (void)env;
  conceal();
  return exports;
}
