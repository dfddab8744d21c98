// Confines tasks. What the kernel allows is detected once, at the start; each task then costs a few system calls.
//
// All tasks share one pid namespace and one mount namespace, in which Ork's data folder is an empty folder that contains only
// the folders that tasks use, sockets that start processes outside are hidden, and files that Ork runs or reads later are read-only. Without root, both belong to a user namespace with the user's own id. With root, a task that
// runs as root gets a user namespace with all ids: it keeps its rights on files, and none over the machine. Where there are no
// namespaces, Landlock keeps tasks from reading and signalling other processes.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ork-spawn.h"

#define FOLDERS_MAX 64
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif
#define LANDLOCK_MAKE_BLOCK (1ULL << 11)
#define LANDLOCK_REFER (1ULL << 13)
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1)
#define LANDLOCK_FOLDER 1

struct landlock {
  uint64_t files, network, scoped;
};

struct landlock_folder {
  uint64_t allowed;
  int32_t fd;
} __attribute__((packed));

static int wanted;  // tasks are confined
static struct paths {
  const char *list[FOLDERS_MAX];
  int count;
} hidden, shown, closed, fixed;  // closed: hidden too, but nothing of Ork; fixed: read-only
static struct rlimit_request {
  int resource;
  uint64_t value;
} limits[] = {{RLIMIT_NPROC, 0}, {RLIMIT_DATA, 0}, {RLIMIT_NOFILE, 0}};
static const char *user_name;
static struct user user;
static int mounts = -1, ids = -1, landlock = -1;  // mount namespace, user namespace of root, ruleset; -1: none
static int active;

static const char *after(const char *argument, const char *name) {
  size_t length = strlen(name);
  return strncmp(argument, name, length) ? NULL : argument + length;
}

static void add(struct paths *paths, const char *path) {
  if (paths->count == FOLDERS_MAX) {
    fprintf(stderr, "ork-spawn: too many folders\n");
    exit(1);
  }
  paths->list[paths->count++] = path;
}

// Reads an option of the command line.
void sandbox_option(const char *argument) {
  const char *value;
  if (!strcmp(argument, "--confine")) wanted = 1;
  else if ((value = after(argument, "--hide="))) add(&hidden, value);
  else if ((value = after(argument, "--show="))) add(&shown, value);
  else if ((value = after(argument, "--close="))) add(&closed, value);
  else if ((value = after(argument, "--fix="))) add(&fixed, value);
  else if ((value = after(argument, "--user="))) user_name = value;
  else if ((value = after(argument, "--processes="))) limits[0].value = strtoull(value, NULL, 10);
  else if ((value = after(argument, "--memory="))) limits[1].value = strtoull(value, NULL, 10);
  else if ((value = after(argument, "--files="))) limits[2].value = strtoull(value, NULL, 10);
}

int sandbox_wanted(void) { return wanted; }

static int make_folders(char *path, size_t from) {
  for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (mkdir(path, 0711) && errno != EEXIST) return -1;
    *slash = '/';
  }
  return mkdir(path, 0711) && errno != EEXIST ? -1 : 0;
}

// After a failure: tasks, which have no more rights than this process, cannot reach the path either.
static int out_of_reach(void) { return errno == ENOENT || errno == ENOTDIR || errno == EACCES; }

// Puts an empty folder in place of `path`, with the shown folders below it.
static int hide(const char *path) {
  int fds[FOLDERS_MAX];
  size_t length = strlen(path);
  for (int i = 0; i < shown.count; i++) {
    int below = !strncmp(shown.list[i], path, length) && shown.list[i][length] == '/';
    fds[i] = below ? open(shown.list[i], O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
  }
  struct stat info;
  if (stat(path, &info)) return out_of_reach() ? 0 : -1;
  if (!S_ISDIR(info.st_mode)) return mount("/dev/null", path, NULL, MS_BIND, NULL);
  if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711,size=64m")) return -1;
  for (int i = 0; i < shown.count; i++) {
    if (fds[i] < 0) continue;
    char source[64], target[4096];
    snprintf(source, sizeof source, "/proc/self/fd/%d", fds[i]);
    if ((size_t)snprintf(target, sizeof target, "%s", shown.list[i]) >= sizeof target) return -1;
    if (make_folders(target, length + 1) || mount(source, target, NULL, MS_BIND | MS_REC, NULL)) return -1;
    close(fds[i]);
  }
  return 0;
}

// Makes a mount point read-only. A user namespace may not change its other flags.
static int make_read_only(const char *path) {
  struct statvfs info;
  if (statvfs(path, &info)) return -1;
  unsigned long kept = info.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_NOATIME | ST_NODIRATIME);
  if (info.f_flag & ST_RELATIME) kept |= MS_RELATIME;
  return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | kept, NULL);
}

// Makes a file or folder read-only, except for what is mounted below it.
static int fix(const char *path) {
  if (access(path, F_OK)) return out_of_reach() ? 0 : -1;
  return mount(path, path, NULL, MS_BIND | MS_REC, NULL) ? -1 : make_read_only(path);
}

static int copy_file(int source, const char *path) {
  int target = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (target < 0) return -1;
  char data[4096];
  ssize_t got;
  while ((got = read(source, data, sizeof data)) > 0)
    if (write(target, data, got) != got) break;
  close(target);
  return got ? -1 : 0;
}

// Puts copies that belong to this user in place of the files of a folder.
static void own_files(const char *folder) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) return;
  if (mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")) goto done;
  for (struct dirent *entry; (entry = readdir(dir));) {
    char path[4096];
    struct stat info;
    int source = openat(fd, entry->d_name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int fits = (size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < sizeof path;
    if (source >= 0 && fits && !fstat(source, &info) && S_ISREG(info.st_mode)) copy_file(source, path);
    if (source >= 0) close(source);
  }
  make_read_only(folder);
done:
  closedir(dir);
}

// In a user namespace, files of root seem to belong to nobody. ssh reads no such file that its configuration includes, and fails.
static void own_ssh_config(void) {
  own_files("/etc/ssh/ssh_config.d");
  own_files("/etc/crypto-policies/back-ends");
}

// Called by init in its own mount namespace. Returns what it has achieved.
int sandbox_hide(void) {
  if (!wanted) return 0;
  int done = hidden.count ? SANDBOX_HIDDEN | SANDBOX_CLOSED : SANDBOX_CLOSED;
  for (int i = 0; i < hidden.count; i++)
    if (hide(hidden.list[i])) done &= ~SANDBOX_HIDDEN;
  for (int i = 0; i < closed.count; i++)
    if (hide(closed.list[i])) done &= ~SANDBOX_CLOSED;
  for (int i = 0; i < fixed.count; i++)
    if (fix(fixed.list[i])) done &= ~SANDBOX_CLOSED;
  if (geteuid() != 0) own_ssh_config();
  return done;
}

static int write_text(int folder, const char *path, const char *text) {
  int fd = openat(folder, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t wrote = write(fd, text, strlen(text));
  close(fd);
  return wrote < 0 ? -1 : 0;
}

// Writes the ids that exist in the user namespace of a process: its own, or all for root.
int map_ids(int proc, pid_t pid) {
  char path[64], text[64];
  int root = geteuid() == 0;
  snprintf(path, sizeof path, "%d/setgroups", pid);
  if (!root && write_text(proc, path, "deny")) return -1;
  for (int groups = 0; groups < 2; groups++) {
    unsigned id = groups ? getegid() : geteuid();
    if (root) snprintf(text, sizeof text, "0 0 4294967295");
    else snprintf(text, sizeof text, "%u %u 1", id, id);
    snprintf(path, sizeof path, groups ? "%d/gid_map" : "%d/uid_map", pid);
    if (write_text(proc, path, text)) return -1;
  }
  return 0;
}

// Creates the user namespace for tasks that run as root. Returns its descriptor, -1 on failure.
static int create_root_ids(int proc) {
  int ends[2], fd = -1;
  if (pipe2(ends, O_CLOEXEC)) return -1;
  pid_t pid = syscall(SYS_clone, (unsigned long)CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0UL);
  if (pid == 0) {
    char byte;
    close(ends[1]);
    if (read(ends[0], &byte, 1)) _exit(1);  // waits until this process has opened the namespace
    _exit(0);
  }
  if (pid > 0) {
    char path[64];
    snprintf(path, sizeof path, "%d/ns/user", pid);
    if (!map_ids(proc, pid)) fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    close(ends[1]);
    waitpid(pid, NULL, 0);
  } else {
    close(ends[1]);
  }
  close(ends[0]);
  return fd;
}

// Any ruleset forbids to read other processes. This one forbids little else: block devices, and signals to others. Version 1 would also
// forbid to move files between folders.
static int create_landlock(void) {
  int version = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
  if (version < 2) return -1;
  struct landlock rules = {LANDLOCK_MAKE_BLOCK | LANDLOCK_REFER, 0, version >= 6 ? LANDLOCK_SCOPE_SIGNAL : 0};
  int fd = syscall(SYS_landlock_create_ruleset, &rules, version >= 6 ? 24 : version >= 4 ? 16 : 8, 0);
  if (fd < 0) return -1;
  struct landlock_folder root = {LANDLOCK_REFER, open("/", O_PATH | O_CLOEXEC)};
  int failed = root.fd < 0 || syscall(SYS_landlock_add_rule, fd, LANDLOCK_FOLDER, &root, 0);
  close(root.fd);
  if (failed) {
    close(fd);
    return -1;
  }
  if (version >= 6) active |= SANDBOX_SIGNALS;
  return fd;
}

// Prepares what every task uses. `namespace_mounts`: -1 without a namespace. `achieved`: by sandbox_hide.
void sandbox_prepare(int proc, int namespace_mounts, int achieved) {
  mounts = namespace_mounts;
  if (mounts >= 0) active |= SANDBOX_NAMESPACE;
  if (!wanted) return;
  active |= SANDBOX_CONFINED | achieved;
  if (user_name && geteuid() == 0 && !find_user(user_name, &user)) active |= SANDBOX_USER;
  if (mounts >= 0 && geteuid() == 0) ids = create_root_ids(proc);
  if (ids >= 0) active |= SANDBOX_ROOT;
  if (mounts < 0) landlock = create_landlock();
  if (landlock >= 0) active |= SANDBOX_LANDLOCK;
}

int sandbox_state(void) { return active; }

// The user of tasks without `run_as`; NULL: that of this process.
struct user *sandbox_user(void) { return active & SANDBOX_USER ? &user : NULL; }

void sandbox_limit(void) {
  if (!wanted) return;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct rlimit limit;
    if (!limits[i].value || getrlimit(limits[i].resource, &limit) || limit.rlim_max <= limits[i].value) continue;
    limit.rlim_max = limits[i].value;
    if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
    setrlimit(limits[i].resource, &limit);
  }
}

// Moves the calling process to the namespaces of tasks, before it changes its user. Returns -1 with errno.
int sandbox_enter(uid_t uid) {
  if (mounts >= 0 && setns(mounts, CLONE_NEWNS)) return -1;
  return wanted && ids >= 0 && uid == 0 ? setns(ids, CLONE_NEWUSER) : 0;
}

// Rights over the machine that root gives up with the exec where it has no user namespace.
static const int machine_rights[] = {CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_PERFMON, CAP_BPF, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_MKNOD};

// Gives up the means to get rights. The last step before the exec.
int sandbox_seal(void) {
  if (!wanted) return 0;
  for (size_t i = 0; geteuid() == 0 && ids < 0 && i < sizeof machine_rights / sizeof *machine_rights; i++)
    prctl(PR_CAPBSET_DROP, machine_rights[i], 0, 0, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  return landlock >= 0 ? (int)syscall(SYS_landlock_restrict_self, landlock, 0) : 0;
}
