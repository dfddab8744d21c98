// Declarations shared by the files of the spawn helper. See ork-spawn.c for the protocol.
#ifndef ORK_SPAWN_H
#define ORK_SPAWN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define LINE_BUFFER 65536   // longest partial line that is buffered until its end arrives
#define INLINE_MAX 65536    // largest output that is sent in the EXITED event
#define PARTIAL_MS 250      // time after which a partial line is written, so that readers see prompts
#define CGROUPS_MAX 2
#define GROUPS_MAX 256

enum stage { STAGE_FILES, STAGE_CWD, STAGE_USER, STAGE_EXEC, STAGE_LIMITS, STAGE_FORK, STAGE_SANDBOX };

struct task;
struct mask;

// Reason why a task could not be started.
struct failure {
  int32_t stage, error;
};

// One of a task's two output pipes, or the pipe that reports its start.
struct stream {
  struct task *task;
  int fd;           // -1: closed
  uint32_t number;  // 1 stdout, 2 stderr, 0 the start
  char *pending;    // the start of a line whose end has not arrived
  uint32_t pending_len;
  int64_t pending_since;  // monotonic ms
  char *held;             // bytes that may be the start of a secret
  uint32_t held_len;
};

// Position of a line of stdout in the raw log. `split`: pieces of stderr are in between.
struct line {
  uint64_t offset, length;
  int split;
};

struct task {
  uint32_t id;
  pid_t pid;
  uint64_t tag;        // value of RLIMIT_RTTIME of all processes of the task
  char *attempt;       // the entry ORK_ATTEMPT_ID=… of its environment; NULL: none
  int exited;          // the main process is reaped; remaining processes are being ended
  int stopping;        // signalled to end: remaining processes have their grace period
  int killing;         // remaining processes are killed at once
  int stop_requested;  // signalled before its main process had ended
  int left;            // remaining processes found by the last sweep
  int status;
  struct rusage usage;
  struct stream streams[2];
  struct stream start;     // closes at the exec; a failure comes first
  struct failure failure;  // error 0: none
  int signal;              // to send after the start; 0: none
  int other_user;          // its output file was created for that user
  int log_fd, index_fd, log_errno;
  uint64_t log_size, max_log;
  int log_full;              // the rest is dropped, except for the last line of stdout:
  char *kept;                // that line
  size_t kept_len;
  int skipping;              // the rest of a line that is too long to keep arrives
  struct line last, open;  // last complete non-blank line of stdout; the line that has not ended
  int open_blank;
  char *log_path, *input_path, *output_path;
  int remove_input;
  struct mask *mask;  // secrets to mask in the log; NULL: none
  char *cgroup;       // name below each controller's base; NULL: none
};

// One START request; strings point into its frame.
struct launch {
  uint32_t id;
  char **argv, **env;
  char *cwd, *stdin_path, *log_path, *output_path, *run_as;
  int write_input, set_home, not_root;
  char *input;
  uint32_t input_len;
  uint64_t memory;
  uint32_t cpu_millis;
  char **secrets;
  char *pipes;
  uint64_t max_log;
};

struct user {
  uid_t uid;
  gid_t gid;
  gid_t groups[GROUPS_MAX];
  int group_count;
  char home[1024], name[256];  // entries of the environment
};

extern struct task **tasks;
extern int task_count;

int64_t monotonic_ms(void);
int64_t wall_ms(void);

// wire.c
#define FRAME_MAX (16 << 20)
struct buffer {
  char *data;
  size_t length, capacity;
};
struct reader {
  char *at, *end;
};
extern struct buffer out;  // events to be sent
void reserve(struct buffer *buffer, size_t more);
void put(const void *data, size_t length);
void put8(uint8_t value);
void put32(uint32_t value);
void put64(uint64_t value);
void put_string(const char *data, uint32_t length);
int put_file(int fd, uint64_t offset, uint32_t length);
size_t begin_frame(uint8_t type, uint32_t id);
void finish_frame(size_t at);
void *read_bytes(struct reader *reader, size_t length);
uint32_t read_u32(struct reader *reader);
uint64_t read_u64(struct reader *reader);
char *read_string(struct reader *reader, uint32_t *length);
char **read_list(struct reader *reader, int spare);

// spawn.c
struct task *start_task(struct launch *launch, struct failure *failure);
void free_task(struct task *task);
int find_user(const char *name, struct user *user);  // 0, or an errno
int tags_usable(void);
int tag_matches(uint64_t tag, uint64_t task_tag);

// tree.c
int isolate(int want_namespace);  // 1: in a pid namespace, 0: below a subreaper
int any_orphans(void);
int is_init(pid_t pid);
void signal_task(struct task *task, int signal);
void sweep_ended(void);
void end_isolation(void);
int proc_open(const char *path);

// sandbox.c
enum {
  SANDBOX_CONFINED = 1,    // no new privileges, limits
  SANDBOX_NAMESPACE = 2,   // pid and mount namespace
  SANDBOX_HIDDEN = 4,      // the data folder is hidden
  SANDBOX_USER = 8,        // tasks run as another user
  SANDBOX_ROOT = 16,       // tasks of root have no rights over the machine
  SANDBOX_LANDLOCK = 32,   // tasks cannot read other processes
  SANDBOX_SIGNALS = 64,    // nor signal them
  SANDBOX_CLOSED = 128,    // sockets of the system are hidden, files that Ork runs or reads are read-only
};
void sandbox_option(const char *argument);
int sandbox_wanted(void);
int sandbox_hide(void);
int map_ids(int proc, pid_t pid);
void sandbox_prepare(int proc, int mounts, int achieved);
int sandbox_state(void);
struct user *sandbox_user(void);
void sandbox_limit(void);
int sandbox_enter(uid_t uid);
int sandbox_seal(void);

// log-file.c
void log_input(struct stream *stream, const char *data, size_t length);
void log_flush(struct stream *stream);
void log_close(struct task *task);

// mask.c
struct mask *mask_create(char **values);
void mask_free(struct mask *mask);
void mask_input(struct stream *stream, const char *data, size_t length);
void mask_end(struct stream *stream);

// cgroup.c
int cgroup_detect(void);  // 0 none, 1 v1, 2 v2
int cgroup_create(struct task *task, uint64_t memory, uint32_t cpu_millis, int error[1]);
int cgroup_join(const char *name);
int cgroup_end(struct task *task);  // removes it; 1: the kernel killed a process at the memory limit
void cgroup_cleanup(void);

#endif
