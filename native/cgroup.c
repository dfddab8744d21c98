// Sets limits by cgroups, v2 or v1, which are detected once at the start. Only tasks with limits have a group. Groups are
// below the helper's own, in a folder named after its pid; the next helper removes those of dead helpers.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ork-spawn.h"

#define PATH_SIZE 1024

static int kind;
static char bases[CGROUPS_MAX][PATH_SIZE];  // v2: one; v1: memory, cpu ("" where there is none)

static int write_to(const char *folder, const char *file, const char *text) {
  char path[PATH_SIZE * 2];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t wrote = write(fd, text, strlen(text));
  close(fd);
  return wrote < 0 ? -1 : 0;
}

static int read_text(int fd, char *text, size_t size) {
  if (fd < 0) return -1;
  ssize_t length = read(fd, text, size - 1);
  close(fd);
  if (length < 0) return -1;
  text[length] = 0;
  return 0;
}

// Finds the helper's own group: the line of /proc/self/cgroup with this controller ("": the line of v2). Returns 0: none.
static int own_group(const char *text, const char *controller, char *path, size_t size) {
  for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    const char *names = strchr(line, ':'), *place = names ? strchr(names + 1, ':') : NULL;
    if (!place) continue;
    names++;
    size_t length = place - names;
    int found = !*controller && length == 0;
    for (const char *name = names; *controller && !found && name < place;) {
      const char *comma = memchr(name, ',', place - name);
      size_t n = (comma ? comma : place) - name;
      found = n == strlen(controller) && !memcmp(name, controller, n);
      name += n + 1;
    }
    if (!found) continue;
    place++;
    int n = strcspn(place, "\n");
    if (n == 1 && *place == '/') n = 0;
    snprintf(path, size, "%.*s", n, place);
    return 1;
  }
  return 0;
}

// Creates the helper's folder below `parent`, and removes those of dead helpers.
static int make_base(const char *parent, char *base) {
  DIR *dir = opendir(parent);
  if (!dir) return -1;
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (strncmp(entry->d_name, "ork-", 4)) continue;
    pid_t owner = atoi(entry->d_name + 4);
    char alive[64];
    snprintf(alive, sizeof alive, "%d/stat", owner);
    int fd = proc_open(alive);
    if (fd >= 0) {
      close(fd);
      continue;
    }
    char stale[PATH_SIZE * 2];
    snprintf(stale, sizeof stale, "%s/%s", parent, entry->d_name);
    DIR *inner = opendir(stale);
    for (struct dirent *sub; inner && (sub = readdir(inner));)
      if (sub->d_type == DT_DIR && sub->d_name[0] != '.') unlinkat(dirfd(inner), sub->d_name, AT_REMOVEDIR);
    if (inner) closedir(inner);
    rmdir(stale);
  }
  closedir(dir);
  if ((size_t)snprintf(base, PATH_SIZE, "%s/ork-%d", parent, getpid()) >= PATH_SIZE) return -1;
  return mkdir(base, 0755) && errno != EEXIST ? -1 : 0;
}

static int try_v2(const char *groups) {
  char path[PATH_SIZE / 2], parent[PATH_SIZE], controllers[1024];
  if (access("/sys/fs/cgroup/cgroup.controllers", R_OK) || !own_group(groups, "", path, sizeof path)) return 0;
  snprintf(parent, sizeof parent, "/sys/fs/cgroup%s", path);
  char file[PATH_SIZE + 32];
  snprintf(file, sizeof file, "%s/cgroup.controllers", parent);
  if (read_text(open(file, O_RDONLY | O_CLOEXEC), controllers, sizeof controllers)) return 0;
  if (!strstr(controllers, "memory")) return 0;
  write_to(parent, "cgroup.subtree_control", "+cpu");
  write_to(parent, "cgroup.subtree_control", "+memory");  // fails if other processes are in this group
  if (make_base(parent, bases[0])) return 0;
  write_to(bases[0], "cgroup.subtree_control", "+cpu");
  if (write_to(bases[0], "cgroup.subtree_control", "+memory")) {
    rmdir(bases[0]);
    bases[0][0] = 0;
    return 0;
  }
  return 2;
}

static int try_v1(const char *groups) {
  static const char *const controllers[CGROUPS_MAX] = {"memory", "cpu"};
  for (int i = 0; i < CGROUPS_MAX; i++) {
    char path[PATH_SIZE / 2], parent[PATH_SIZE];
    if (!own_group(groups, controllers[i], path, sizeof path)) continue;
    snprintf(parent, sizeof parent, "/sys/fs/cgroup/%s%s", controllers[i], path);
    if (make_base(parent, bases[i])) bases[i][0] = 0;
  }
  return bases[0][0] ? 1 : 0;
}

int cgroup_detect(void) {
  char groups[4096];
  if (read_text(proc_open("self/cgroup"), groups, sizeof groups)) return 0;
  kind = try_v2(groups);
  if (!kind) kind = try_v1(groups);
  return kind;
}

static void group_path(char *path, int i, const char *name) {
  if (snprintf(path, PATH_SIZE * 2, "%s/%s", bases[i], name) >= PATH_SIZE * 2) path[0] = 0;
}

// Creates the group of a task with limits and sets task->cgroup. Returns -1 and sets `error` on failure.
int cgroup_create(struct task *task, uint64_t memory, uint32_t cpu_millis, int error[1]) {
  if (!kind || (!memory && !cpu_millis)) return 0;
  char name[32], path[PATH_SIZE * 2], value[64];
  snprintf(name, sizeof name, "t%u", task->id);
  task->cgroup = strdup(name);
  for (int i = 0; i < CGROUPS_MAX; i++) {
    if (!bases[i][0]) continue;
    group_path(path, i, name);
    int bad = mkdir(path, 0755) && errno != EEXIST;
    if (kind == 2) {
      snprintf(value, sizeof value, "%llu", (unsigned long long)memory);
      if (!bad && memory) bad = write_to(path, "memory.max", value);
      if (!bad && memory) write_to(path, "memory.swap.max", "0");
      if (!bad && memory) write_to(path, "memory.oom.group", "1");
      snprintf(value, sizeof value, "%u 100000", cpu_millis * 100);
      if (!bad && cpu_millis) write_to(path, "cpu.max", value);
    } else if (i == 0) {
      snprintf(value, sizeof value, "%llu", (unsigned long long)memory);
      if (!bad && memory) bad = write_to(path, "memory.limit_in_bytes", value);
      if (!bad && memory) write_to(path, "memory.memsw.limit_in_bytes", value);
    } else {
      snprintf(value, sizeof value, "%u", cpu_millis * 100);
      if (!bad && cpu_millis) bad = write_to(path, "cpu.cfs_quota_us", value);
    }
    if (bad) {
      *error = errno;
      return -1;
    }
  }
  return 0;
}

// Moves the calling process into the group. Called in the new process before exec.
int cgroup_join(const char *name) {
  char path[PATH_SIZE * 2];
  for (int i = 0; i < CGROUPS_MAX; i++) {
    if (!bases[i][0]) continue;
    group_path(path, i, name);
    if (write_to(path, "cgroup.procs", "0")) return -1;
  }
  return 0;
}

int cgroup_end(struct task *task) {
  if (!task->cgroup) return 0;
  char path[PATH_SIZE * 2], file[PATH_SIZE * 2 + 32], text[1024];
  group_path(path, 0, task->cgroup);
  snprintf(file, sizeof file, "%s/%s", path, kind == 2 ? "memory.events" : "memory.oom_control");
  int killed = 0;
  if (!read_text(open(file, O_RDONLY | O_CLOEXEC), text, sizeof text)) {
    const char *count = strstr(text, "oom_kill ");
    killed = count && atoi(count + strlen("oom_kill ")) > 0;
  }
  for (int i = 0; i < CGROUPS_MAX; i++) {
    if (!bases[i][0]) continue;
    group_path(path, i, task->cgroup);
    rmdir(path);
  }
  free(task->cgroup);
  task->cgroup = NULL;
  return killed;
}

void cgroup_cleanup(void) {
  for (int i = 0; i < CGROUPS_MAX; i++)
    if (bases[i][0]) rmdir(bases[i]);
}
