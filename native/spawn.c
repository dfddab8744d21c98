// Starts a process by a fork. The child looks up the user, creates the files and execs, any of which may take long; this process
// continues meanwhile. The child reports a failure on a pipe, which closes when it execs.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ork-spawn.h"

#define CHILD_FDS 5
#define ATTEMPT_VARIABLE "ORK_ATTEMPT_ID="

// A tag has 39 random bits and these low bits, all 1. A helper inside of a task sets the low bits of the task's tag to random
// others; a third level has no tags.
#define NESTED_BITS ((1ULL << 23) - 1)
#define TAG_BASE (1ULL << 62)

// Arguments of the child.
struct child {
  struct launch *launch;
  struct task *task;
  int fds[CHILD_FDS];  // the child's descriptors; -1: not open
  int status;          // pipe for a failure
};

static struct rlimit files_before;  // the limit that this process was started with, for its children
static uint64_t outer_tag;  // tag of the task that this process belongs to; 0: none

int tags_usable(void) {
  struct rlimit files, limit;
  if (!getrlimit(RLIMIT_NOFILE, &files)) {
    files_before = files;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (getrlimit(RLIMIT_RTTIME, &limit)) return 0;
  if (limit.rlim_max == RLIM_INFINITY) return 1;
  outer_tag = limit.rlim_max;
  return outer_tag >= TAG_BASE && (outer_tag & NESTED_BITS) == NESTED_BITS;
}

int tag_matches(uint64_t tag, uint64_t task_tag) {
  uint64_t ignored = (task_tag & NESTED_BITS) == NESTED_BITS ? NESTED_BITS : 0;
  return (tag | ignored) == (task_tag | ignored);
}

static uint64_t new_tag(void) {
  for (;;) {
    uint64_t random = 0;
    while (getrandom(&random, sizeof random, 0) != sizeof random) continue;
    uint64_t tag = outer_tag ? (outer_tag & ~NESTED_BITS) | (random & NESTED_BITS) : TAG_BASE | random >> 2 | NESTED_BITS;
    int used = tag == outer_tag;
    for (int i = 0; i < task_count && !used; i++) used = tag_matches(tag, tasks[i]->tag);
    if (!used) return tag;
  }
}

static char *find_attempt(char **env) {
  for (; *env; env++)
    if (!strncmp(*env, ATTEMPT_VARIABLE, strlen(ATTEMPT_VARIABLE))) return strdup(*env);
  return NULL;
}

int find_user(const char *name, struct user *user) {
  char *end;
  errno = 0;
  struct passwd *entry = getpwnam(name);
  if (!entry) {
    unsigned long uid = strtoul(name, &end, 10);
    if (!*end && *name >= '0' && *name <= '9' && uid <= UINT32_MAX) entry = getpwuid(uid);
  }
  if (!entry) return errno ? errno : ENOENT;
  user->uid = entry->pw_uid;
  user->gid = entry->pw_gid;
  snprintf(user->home, sizeof user->home, "HOME=%s", entry->pw_dir);
  snprintf(user->name, sizeof user->name, "USER=%s", entry->pw_name);
  user->group_count = GROUPS_MAX;
  if (getgrouplist(entry->pw_name, entry->pw_gid, user->groups, &user->group_count) < 0) return E2BIG;
  return geteuid() == 0 || user->uid == geteuid() ? 0 : EPERM;
}

static void set_env(char **env, char *entry) {
  size_t name = strchr(entry, '=') - entry + 1;
  for (; *env; env++)
    if (!strncmp(*env, entry, name)) break;
  *env = entry;  // read_list has reserved space for two more entries
}

// Behaves like execvpe, with the PATH of the new environment.
static int exec_path(char **argv, char **env) {
  const char *file = argv[0], *path = NULL;
  if (strchr(file, '/')) {
    execve(file, argv, env);
    return errno;
  }
  for (char **entry = env; *entry; entry++)
    if (!strncmp(*entry, "PATH=", 5)) path = *entry + 5;
  if (!path) path = "/usr/local/bin:/usr/bin:/bin";
  int error = ENOENT;
  static char candidate[4096];
  while (*path) {
    size_t length = strcspn(path, ":");
    if (length + strlen(file) + 2 <= sizeof candidate && length) {
      memcpy(candidate, path, length);
      candidate[length] = '/';
      strcpy(candidate + length + 1, file);
      execve(candidate, argv, env);
      if (errno == EACCES || errno == ENOEXEC) error = errno;
      else if (errno != ENOENT && errno != ENOTDIR) return errno;
    }
    path += length;
    if (*path) path++;
  }
  return error;
}

static _Noreturn void fail(struct child *child, enum stage stage, int error) {
  struct failure failure = {stage, error};
  if (write(child->status, &failure, sizeof failure) != sizeof failure) _exit(126);
  _exit(127);
}

// Creates a file with this content. Returns its descriptor at offset 0, or -1 with errno.
static int write_file(const char *path, const char *data, size_t length, struct user *user) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  while (length) {
    ssize_t wrote = write(fd, data, length);
    if (wrote < 0 && errno != EINTR) goto bad;
    if (wrote > 0) data += wrote, length -= wrote;
  }
  if (user && fchown(fd, user->uid, user->gid)) goto bad;
  lseek(fd, 0, SEEK_SET);
  return fd;
bad:;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// Creates the files of the child and opens its stdin. `user`: NULL for this process's own.
static void open_files(struct child *child, struct user *user) {
  struct launch *launch = child->launch;
  if (user && *launch->output_path) {
    int fd = write_file(launch->output_path, "", 0, user);
    if (fd < 0) fail(child, STAGE_FILES, errno);
    close(fd);
  }
  const char *path = *launch->stdin_path ? launch->stdin_path : "/dev/null";
  if (launch->write_input) child->fds[0] = write_file(path, launch->input, launch->input_len, user);
  else child->fds[0] = open(path, O_RDONLY | O_CLOEXEC);
  if (child->fds[0] < 0) fail(child, STAGE_FILES, errno);
  int given = user && !launch->write_input && *launch->stdin_path;
  if (given && fchown(child->fds[0], user->uid, user->gid)) fail(child, STAGE_FILES, errno);
}

static void set_limits(struct child *child) {
  struct task *task = child->task;
  if (task->cgroup && cgroup_join(task->cgroup)) fail(child, STAGE_LIMITS, errno);
  struct rlimit tag = {task->tag, task->tag};
  if (setrlimit(RLIMIT_RTTIME, &tag)) fail(child, STAGE_LIMITS, errno);
  struct rlimit memory = {child->launch->memory, child->launch->memory};
  if (memory.rlim_cur && !task->cgroup && setrlimit(RLIMIT_AS, &memory)) fail(child, STAGE_LIMITS, errno);
  setrlimit(RLIMIT_NOFILE, &files_before);
  sandbox_limit();
}

// The user's home, or the working folder for a user without one.
static char *home_of(struct user *user, const char *cwd) {
  static char entry[4096 + 8];
  struct stat info;
  if (!stat(user->home + strlen("HOME="), &info) && S_ISDIR(info.st_mode)) return user->home;
  return (size_t)snprintf(entry, sizeof entry, "HOME=%s", cwd) < sizeof entry ? entry : user->home;
}

static _Noreturn void run_child(struct child *child) {
  struct launch *launch = child->launch;
  static const int reset[] = {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  for (size_t i = 0; i < sizeof reset / sizeof *reset; i++) signal(reset[i], SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid();
  struct user found, *user = sandbox_user();
  if (*launch->run_as) {
    int error = find_user(launch->run_as, &found);
    if (!error && launch->not_root && found.uid == 0) error = EACCES;
    if (error) fail(child, STAGE_USER, error);
    user = &found;
  }
  if (user) {
    if (launch->set_home) set_env(launch->env, home_of(user, launch->cwd));
    set_env(launch->env, user->name);
  }
  open_files(child, user);
  for (int i = 0; i < CHILD_FDS; i++)
    if (child->fds[i] >= 0 && dup2(child->fds[i], i) < 0) fail(child, STAGE_FILES, errno);
  // The user may open its own output by a path such as /dev/stderr.
  for (int i = 1; i < 3 && user && geteuid() == 0; i++)
    if (fchown(i, user->uid, user->gid)) fail(child, STAGE_FILES, errno);
  set_limits(child);
  if (sandbox_enter(user ? user->uid : geteuid())) fail(child, STAGE_SANDBOX, errno);
  if (user && geteuid() == 0 &&
      (setgroups(user->group_count, user->groups) || setgid(user->gid) || setuid(user->uid)))
    fail(child, STAGE_USER, errno);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (chdir(launch->cwd)) fail(child, STAGE_CWD, errno);
  if (sandbox_seal()) fail(child, STAGE_SANDBOX, errno);
  fail(child, STAGE_EXEC, exec_path(launch->argv, launch->env));
}

// Opens a named pipe whose other end Ork has open already. Returns -1 with errno.
static int open_pipe(const char *folder, const char *name, int flags) {
  char path[4096];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0) fcntl(fd, F_SETFL, 0);
  return fd;
}

// Opens what the child uses as descriptors 1 and 2 (pipes to this process), or 1 to 4 (named pipes).
static int open_outputs(struct launch *launch, int fds[CHILD_FDS], int ends[2]) {
  static const char *const names[] = {"out", "err", "up", "down"};
  if (*launch->pipes) {
    for (int i = 0; i < 4; i++)
      if ((fds[i + 1] = open_pipe(launch->pipes, names[i], i < 3 ? O_WRONLY : O_RDONLY)) < 0) return -1;
    return 0;
  }
  for (int i = 0; i < 2; i++) {
    int pair[2];
    if (pipe2(pair, O_CLOEXEC)) return -1;
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    ends[i] = pair[0];
    fds[i + 1] = pair[1];
  }
  return 0;
}

void free_task(struct task *task) {
  cgroup_end(task);
  free(task->attempt);
  free(task->log_path);
  free(task->input_path);
  free(task->output_path);
  mask_free(task->mask);
  free(task);
}

static void close_all(const int *fds, int count) {
  for (int i = 0; i < count; i++)
    if (fds[i] >= 0) close(fds[i]);
}

// Returns the task while it starts, or NULL and sets `failure`.
struct task *start_task(struct launch *launch, struct failure *failure) {
  struct task *task = calloc(1, sizeof *task);
  if (!task) _exit(1);
  struct child child = {.launch = launch, .task = task, .fds = {-1, -1, -1, -1, -1}};
  int ends[2] = {-1, -1}, status[2] = {-1, -1};
  task->id = launch->id;
  task->tag = new_tag();
  task->attempt = find_attempt(launch->env);
  task->log_fd = task->index_fd = -1;
  task->max_log = launch->max_log;
  task->log_path = *launch->log_path ? strdup(launch->log_path) : NULL;
  task->output_path = *launch->output_path ? strdup(launch->output_path) : NULL;
  task->input_path = *launch->stdin_path ? strdup(launch->stdin_path) : NULL;
  task->remove_input = launch->write_input;
  task->other_user = *launch->run_as || sandbox_user();
  task->mask = mask_create(launch->secrets);

  *failure = (struct failure){STAGE_FILES, 0};
  if (open_outputs(launch, child.fds, ends) || pipe2(status, O_CLOEXEC | O_NONBLOCK)) goto failed;
  failure->stage = STAGE_LIMITS;
  if (cgroup_create(task, launch->memory, launch->cpu_millis, &failure->error)) goto bad;
  failure->stage = STAGE_FORK;
  child.status = status[1];
  task->pid = fork();
  if (task->pid < 0) goto failed;
  if (!task->pid) run_child(&child);
  close_all(child.fds, CHILD_FDS);
  close(status[1]);
  for (int i = 0; i < 2; i++) task->streams[i] = (struct stream){.task = task, .fd = ends[i], .number = i + 1};
  task->start = (struct stream){.task = task, .fd = status[0]};
  return task;

failed:
  failure->error = errno;
bad:
  close_all(child.fds, CHILD_FDS);
  close_all(ends, 2);
  close_all(status, 2);
  free_task(task);
  return NULL;
}
