// Finds all processes of a task, and kills those that are left.
//
// Every process of a task has the task's tag: a value of RLIMIT_RTTIME (a limit for real-time threads only, here
// thousands of years) that is inherited across fork, exec, setsid and `env -i`, and can be lowered but not raised. The
// processes of a task are found by reading that limit of every process. An Ork inside of a task creates tags that differ
// from the task's in their low bits only. A process that has lowered the limit is found by its session or its attempt id.
//
// That is not necessary at every exit. Orphans of a task are reparented to the reaper: init of the pid namespace, or a
// subreaper above this process. The kernel reparents orphans before it reports their parent's exit, so a reaper without
// children means that no ended task has left processes, unless they are children of this process (CLONE_PARENT). One
// question is enough for all tasks that ended in an iteration.
//
// Namespace: the helper stays outside (its children have the pids that users see), init and the tasks are inside, with a
// /proc of their own. Init dies with the helper, and the kernel kills the whole namespace when init dies.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ork-spawn.h"

static int proc = -1;        // /proc outside of the namespace
static int reaper = -1;      // socket to the reaper
static pid_t namespace_init; // 0: no namespace

int proc_open(const char *path) { return openat(proc, path, O_RDONLY | O_CLOEXEC); }

// Reaps children for ever. Each byte on the socket asks whether a child is left; the process exits when the socket closes.
static _Noreturn void reap_forever(int socket) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, NULL);
  int events = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  struct pollfd fds[2] = {{socket, POLLIN, 0}, {events, POLLIN, 0}};
  for (;;) {
    poll(fds, 2, -1);
    struct signalfd_siginfo info;
    while (read(events, &info, sizeof info) > 0) continue;
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) continue;
    if (!fds[0].revents) continue;
    char byte;
    if (read(socket, &byte, 1) <= 0) _exit(0);
    byte = pid == 0 ? 'y' : 'n';
    if (write(socket, &byte, 1) != 1) _exit(0);
  }
}

static void close_standard_streams(void) {
  close(0);
  close(1);
}

// Init of the pid namespace, in a mount namespace of its own.
static _Noreturn void run_init(int socket, int wait_for_ids) {
  char byte;
  if (wait_for_ids && read(socket, &byte, 1) != 1) _exit(1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_standard_streams();
  if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL)) _exit(1);
  byte = sandbox_hide();
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) || write(socket, &byte, 1) != 1) _exit(1);
  reap_forever(socket);
}

static int open_namespace(pid_t pid, const char *kind) {
  char path[64];
  snprintf(path, sizeof path, "%d/ns/%s", pid, kind);
  return proc_open(path);
}

// Starts init, and makes the children of this process members of its pid namespace. Nothing has changed on failure.
static int enter_namespace(int ends[2]) {
  int own_ids = geteuid() != 0;
  unsigned long flags = CLONE_NEWPID | CLONE_NEWNS | (own_ids ? CLONE_NEWUSER : 0) | SIGCHLD;
  pid_t pid = syscall(SYS_clone, flags, NULL, NULL, NULL, 0UL);
  if (pid == 0) {
    close(ends[0]);
    run_init(ends[1], own_ids);
  }
  if (pid < 0) return 0;
  char byte = 'm';
  int mounts = -1, pids = -1, users = -1, entered = 0;
  if (own_ids && (map_ids(proc, pid) || write(ends[0], &byte, 1) != 1)) goto done;
  close(ends[1]);
  ends[1] = -1;
  if (read(ends[0], &byte, 1) != 1) goto done;
  mounts = open_namespace(pid, "mnt");
  pids = open_namespace(pid, "pid");
  users = own_ids ? open_namespace(pid, "user") : -1;
  if (mounts < 0 || pids < 0 || (own_ids && (users < 0 || setns(users, CLONE_NEWUSER)))) goto done;
  entered = !setns(pids, CLONE_NEWPID);
done:
  if (pids >= 0) close(pids);
  if (users >= 0) close(users);
  if (entered) {
    namespace_init = pid;
    sandbox_prepare(proc, mounts, (uint8_t)byte);
    return 1;
  }
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  if (mounts >= 0) close(mounts);
  return 0;
}

int isolate(int want_namespace) {
  int ends[2];
  syscall(SYS_close_range, 3U, ~0U, 0U);  // tasks must not inherit descriptors of Ork
  proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) _exit(1);
  if (want_namespace && (geteuid() == 0 || sandbox_wanted())) {
    if (enter_namespace(ends)) {
      reaper = ends[0];
      return 1;
    }
    close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) _exit(1);
  }
  sandbox_prepare(proc, -1, 0);
  // This process becomes the reaper, and its child the helper. The child has no exit signal, so that a plain waitpid in
  // the reaper ignores it.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  long pid = syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
  if (pid < 0) _exit(1);
  if (pid > 0) {
    close(ends[0]);
    close_standard_streams();
    reap_forever(ends[1]);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(ends[1]);
  reaper = ends[0];
  return 0;
}

int is_init(pid_t pid) { return namespace_init && pid == namespace_init; }

int any_orphans(void) {
  char byte = '?';
  ssize_t got = write(reaper, &byte, 1);
  while (got == 1 && (got = read(reaper, &byte, 1)) < 0 && errno == EINTR) got = 1;
  if (got != 1) exit(1);  // the helper needs its reaper: Ork starts another helper
  return byte == 'y';
}

// Returns 1 when this process has children that are neither init nor main processes of tasks.
static int has_other_children(void) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "self/task/%d/children", getpid());
  int fd = proc_open(path), count = 0;
  if (fd < 0) return 0;  // the kernel has no such file
  for (ssize_t got; (got = read(fd, text, sizeof text)) > 0;)
    for (ssize_t i = 0; i < got; i++) count += text[i] == ' ';  // one blank after each pid
  close(fd);
  for (int i = 0; i < task_count; i++) count -= !tasks[i]->exited;
  return count > !!namespace_init;
}

// Reads a file of a process as text; returns its length, 0 on failure.
static size_t read_process_file(pid_t pid, const char *name, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "%d/%s", pid, name);
  int fd = proc_open(path);
  size_t length = 0;
  for (ssize_t got; fd >= 0 && length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0;) length += got;
  if (fd >= 0) close(fd);
  text[length] = 0;
  return length;
}

static uint64_t tag_of(pid_t pid) {
  struct rlimit limit;
  if (!prlimit(pid, RLIMIT_RTTIME, NULL, &limit)) return limit.rlim_max;
  if (errno != EPERM) return RLIM_INFINITY;
  // A process of another user, and this process may not read its limits by a system call.
  char text[4096];
  read_process_file(pid, "limits", text, sizeof text);
  const char *line = strstr(text, "Max realtime timeout");
  unsigned long long hard;
  return line && sscanf(line, "Max realtime timeout %*s %llu", &hard) == 1 ? hard : RLIM_INFINITY;
}

// Reads the state and the session of a process; returns 0 when it is gone.
static int read_stat(pid_t pid, char *state, pid_t *session) {
  char text[1024];
  read_process_file(pid, "stat", text, sizeof text);
  const char *name_end = strrchr(text, ')');  // the name may contain anything
  return name_end && sscanf(name_end, ") %c %*d %*d %d", state, session) == 2;
}

static int has_attempt(const char *environment, size_t length, const char *attempt) {
  for (const char *entry = environment; entry < environment + length; entry += strlen(entry) + 1)
    if (!strcmp(entry, attempt)) return 1;
  return 0;
}

// Finds the task of a process with a tag; NULL: none.
static struct task *task_of(pid_t pid, uint64_t tag) {
  for (int i = 0; i < task_count; i++)
    if (tag_matches(tag, tasks[i]->tag)) return tasks[i];
  // It has lowered the limit, or belongs to another helper.
  static char environment[1 << 18];
  char state;
  pid_t session;
  if (!read_stat(pid, &state, &session)) return NULL;
  size_t length = read_process_file(pid, "environ", environment, sizeof environment);
  for (int i = 0; i < task_count; i++) {
    if (tasks[i]->pid == session) return tasks[i];
    if (tasks[i]->attempt && has_attempt(environment, length, tasks[i]->attempt)) return tasks[i];
  }
  return NULL;
}

// Signals a process only while it belongs to the task: the pid may be that of another process by now.
static void signal_process(pid_t pid, struct task *task, int signal) {
  int fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) {
    if (errno == ENOSYS && task_of(pid, tag_of(pid)) == task) kill(pid, signal);
    return;
  }
  if (task_of(pid, tag_of(pid)) == task) {
    syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    if (signal == SIGTERM) syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
  }
  close(fd);
}

// Calls `visit` for every process of a task.
static void each_process(void (*visit)(pid_t pid, struct task *task, void *data), void *data) {
  int fd = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) return;
  for (struct dirent *entry; (entry = readdir(dir));) {
    pid_t pid = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? atoi(entry->d_name) : 0;
    if (!pid) continue;
    uint64_t tag = tag_of(pid);
    struct task *task = tag == RLIM_INFINITY ? NULL : task_of(pid, tag);
    if (task) visit(pid, task, data);
  }
  closedir(dir);
}

struct signal_request {
  struct task *task;
  int signal;
};

static void visit_signal(pid_t pid, struct task *task, void *data) {
  struct signal_request *request = data;
  if (task == request->task) signal_process(pid, task, request->signal);
}

void signal_task(struct task *task, int signal) {
  struct signal_request request = {task, signal};
  each_process(visit_signal, &request);
}

static void visit_leftover(pid_t pid, struct task *task, void *data) {
  (void)data;
  char state;
  pid_t session;
  if (!task->exited || !read_stat(pid, &state, &session) || state == 'Z' || state == 'X') return;
  task->left++;
  if (!task->stopping || task->killing) signal_process(pid, task, SIGKILL);
}

// Counts the remaining processes of each ended task, and kills them unless the task has its grace period.
void sweep_ended(void) {
  for (int i = 0; i < task_count; i++) tasks[i]->left = 0;
  if (any_orphans() || has_other_children()) each_process(visit_leftover, NULL);
}

// Kills every process of every task, and waits until they are gone.
void end_isolation(void) {
  if (namespace_init) {
    kill(namespace_init, SIGKILL);
    // Init ends when its namespace is empty; the tasks' main processes in it are children of this process.
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) continue;
    return;
  }
  // Marks all tasks as ended, so that visit_leftover kills their main processes too. A task that starts may have no tag yet.
  for (int i = 0; i < task_count; i++) {
    if (!tasks[i]->exited) kill(tasks[i]->pid, SIGKILL);
    tasks[i]->exited = tasks[i]->killing = 1;
  }
  for (int left = 1; left;) {
    each_process(visit_leftover, NULL);
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    left = 0;
    for (int i = 0; i < task_count; i++) {
      left += tasks[i]->left;
      tasks[i]->left = 0;
    }
    if (left) poll(NULL, 0, 1);
  }
}
