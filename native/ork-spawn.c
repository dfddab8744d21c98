// ork-spawn: a small process that starts the processes of tasks, writes their logs, and ends them.
//
// Ork starts one helper and exchanges frames with it over its standard input and output. The helper ends when its input ends,
// that is with Ork, however Ork ends; it then kills every process of every task (tree.c). Log bytes never pass through Ork.
//
// Protocol, little-endian. Frame: u32 length of the rest, u8 type, u32 id, fields. String: u32 length, bytes, one NUL
// that is not counted. Ork assigns the ids; an id is in use until its EXITED or FAILED.
//
//   to the helper
//   1 START   u32 flags (1: write `input` to the stdin file first and remove the file at the end, 2: set HOME to that of the user,
//             4: run_as must not be a user with the id 0),
//             u32 n, n strings argv; u32 n, n strings NAME=value; string cwd; string stdin file ("": /dev/null);
//             string log file ("": none; its index is the same with .idx); string output file ("": none); string run_as ("": no);
//             string input; u64 memory in bytes (0: no limit); u32 cpu in thousandths (0: no limit);
//             u32 n, n strings that are masked in the log (the longest first, none empty or with a NUL);
//             string folder of the named pipes `out`, `err`, `up`, `down` that become descriptors 1 to 4 ("": 1 and 2 are the log);
//             u64 size of the log from which the rest is dropped
//   2 KILL    i32 signal to all processes of the task. SIGKILL is repeated until no process is left.
//   3 LEASE   the id is a time in ms. Without another frame LEASE within it, the helper ends, and with it every task: Ork is paused or
//             blocked, and another server may run its tasks.
//
//   from the helper
//   16 HELLO    u32 version, u8 namespace (1: yes), u8 cgroups (0, 1, 2), u8 usable (0: processes cannot be tagged here),
//             u8 protections (SANDBOX_… in ork-spawn.h)
//   17 STARTED  i32 pid as seen outside of the namespace
//   18 FAILED   u8 stage (files, cwd, user, exec, limits, fork, sandbox), i32 errno, string text
//   19 EXITED   i32 exit code (-1: by signal), i32 signal, u64 peak memory in bytes, u64 user and u64 system CPU in microseconds,
//             u8 flags (1: memory limit exceeded, 2: the last line is in pieces, 4: signalled before its main process ended),
//             i32 errno of the log (0: complete), i32 errno of the output file (0: readable, or none), u64 log size, u64 offset and u64 length in the log of the last non-blank line
//             of stdout, i64 size of the output file (-1: none), u8 content that follows (0 none, 1 the output file, 2 that
//             line), string content. Only small content is sent, and an output file that is sent is removed. The event is
//             sent when no process of the task is alive.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ork-spawn.h"

#define VERSION 4
#define STARTS_PER_ITERATION 16  // then logs are read and exits are reported

enum { START = 1, KILL = 2, LEASE = 3, HELLO = 16, STARTED = 17, FAILED = 18, EXITED = 19 };

struct task **tasks;
int task_count;
static int task_capacity, poller, signals, input_ended, output_waits;
static struct buffer in;
struct buffer out;
static int64_t sweep_at;  // monotonic ms of the next sweep of ended tasks; 0: none
static int sweep_interval;
static int64_t lease_until;  // monotonic ms; 0: none

static int64_t clock_ms(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
int64_t monotonic_ms(void) { return clock_ms(CLOCK_MONOTONIC); }
int64_t wall_ms(void) { return clock_ms(CLOCK_REALTIME); }

static void watch(int fd, uint32_t events, void *data) {
  struct epoll_event event = {.events = events, .data.ptr = data};
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

static void flush_output(void) {
  size_t sent = 0;
  while (sent < out.length) {
    ssize_t wrote = write(1, out.data + sent, out.length - sent);
    if (wrote > 0) sent += wrote;
    else if (errno == EAGAIN) break;
    else if (errno != EINTR) {
      input_ended = 1;  // Ork has closed the pipe
      break;
    }
  }
  memmove(out.data, out.data + sent, out.length - sent);
  out.length -= sent;
  int waits = out.length > 0;
  if (waits == output_waits) return;
  output_waits = waits;
  struct epoll_event event = {.events = waits ? EPOLLOUT : 0, .data.ptr = &out};
  epoll_ctl(poller, EPOLL_CTL_MOD, 1, &event);
}

static void put_failed(uint32_t id, struct failure failure) {
  const char *text = strerror(failure.error);
  size_t at = begin_frame(FAILED, id);
  put8(failure.stage);
  put32(failure.error);
  put_string(text, strlen(text));
  finish_frame(at);
}

static void on_start(uint32_t id, struct reader *reader) {
  struct launch launch = {.id = id};
  uint32_t flags = read_u32(reader);
  launch.write_input = flags & 1;
  launch.set_home = !!(flags & 2);
  launch.not_root = !!(flags & 4);
  launch.argv = read_list(reader, 0);
  launch.env = read_list(reader, 2);
  launch.cwd = read_string(reader, NULL);
  launch.stdin_path = read_string(reader, NULL);
  launch.log_path = read_string(reader, NULL);
  launch.output_path = read_string(reader, NULL);
  launch.run_as = read_string(reader, NULL);
  launch.input = read_string(reader, &launch.input_len);
  launch.memory = read_u64(reader);
  launch.cpu_millis = read_u32(reader);
  launch.secrets = read_list(reader, 0);
  launch.pipes = read_string(reader, NULL);
  launch.max_log = read_u64(reader);

  struct failure failure;
  struct task *task = start_task(&launch, &failure);
  free(launch.argv);
  free(launch.env);
  free(launch.secrets);
  if (!task) {
    put_failed(id, failure);
    return;
  }
  if (task_count == task_capacity) {
    task_capacity = task_capacity ? task_capacity * 2 : 64;
    tasks = realloc(tasks, task_capacity * sizeof *tasks);
    if (!tasks) _exit(1);
  }
  tasks[task_count++] = task;
  watch(task->start.fd, EPOLLIN, &task->start);
  for (int i = 0; i < 2; i++)
    if (task->streams[i].fd >= 0) watch(task->streams[i].fd, EPOLLIN, &task->streams[i]);
}

static void close_stream(struct stream *stream) {
  epoll_ctl(poller, EPOLL_CTL_DEL, stream->fd, NULL);
  close(stream->fd);
  stream->fd = -1;
}

// Reads the pipe of a starting task: a failure, or its end when the task has started.
static void read_start(struct task *task) {
  ssize_t got = read(task->start.fd, &task->failure, sizeof task->failure);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  close_stream(&task->start);
  if (got > 0) return;  // its exit is reported as FAILED
  size_t at = begin_frame(STARTED, task->id);
  put32(task->pid);
  finish_frame(at);
  if (task->signal) signal_task(task, task->signal);
}

static void reap(void);

static void on_kill(uint32_t id, int signal) {
  reap();  // a task that has ended before this request is not stopped by it
  for (int i = 0; i < task_count; i++) {
    struct task *task = tasks[i];
    if (task->id != id) continue;
    if (signal == SIGKILL) task->killing = 1;
    else task->stopping = 1;
    if (!task->exited) task->stop_requested = 1;
    if (task->start.fd < 0) signal_task(task, signal);
    else if (signal == SIGKILL) kill(task->pid, SIGKILL);
    else task->signal = signal;  // the child may still ignore it
    if (task->exited) sweep_at = monotonic_ms();
  }
}

// Handles the frames that have arrived; returns 1 when complete frames are left for the next iteration.
static int handle_requests(void) {
  size_t done = 0;
  int starts = 0, more = 0;
  while (in.length - done >= 4) {
    uint32_t length;
    memcpy(&length, in.data + done, 4);
    if (length < 5 || length > FRAME_MAX) exit(1);
    if (in.length - done - 4 < length) {
      reserve(&in, length + 4);
      break;
    }
    if (starts == STARTS_PER_ITERATION) {
      more = 1;
      break;
    }
    struct reader reader = {in.data + done + 4, in.data + done + 4 + length};
    uint8_t type = *(uint8_t *)read_bytes(&reader, 1);
    uint32_t id = read_u32(&reader);
    if (type == START) {
      on_start(id, &reader);
      starts++;
    } else if (type == KILL) {
      on_kill(id, (int)read_u32(&reader));
    } else if (type == LEASE) {
      lease_until = monotonic_ms() + id;
    }
    done += 4 + length;
  }
  memmove(in.data, in.data + done, in.length - done);
  in.length -= done;
  if (!in.length && in.capacity > 1 << 20) {
    free(in.data);
    in = (struct buffer){0};
  }
  return more;
}

static void read_requests(void) {
  reserve(&in, 65536);
  ssize_t got = read(0, in.data + in.length, in.capacity - in.length);
  if (got > 0) in.length += got;
  else if (got == 0 || (errno != EAGAIN && errno != EINTR)) input_ended = 1;
}

static int read_stream(struct stream *stream) {
  static char chunk[LINE_BUFFER];
  ssize_t got = read(stream->fd, chunk, sizeof chunk);
  if (got > 0) {
    if (stream->task->mask) mask_input(stream, chunk, got);
    else log_input(stream, chunk, got);
    return 1;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  close_stream(stream);
  return 0;
}

static void read_ready(struct stream *stream) {
  if (stream->fd < 0) return;
  if (stream->number) read_stream(stream);
  else read_start(stream->task);
}

static void reap(void) {
  struct signalfd_siginfo info;
  while (read(signals, &info, sizeof info) > 0) continue;
  int status;
  struct rusage usage;
  for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &usage)) > 0;) {
    if (is_init(pid)) exit(1);  // the kernel has killed all tasks with it
    for (int i = 0; i < task_count; i++) {
      struct task *task = tasks[i];
      if (task->pid != pid || task->exited) continue;
      task->exited = 1;
      task->status = status;
      task->usage = usage;
      sweep_at = 1;
      sweep_interval = 1;
    }
  }
}

static uint64_t micros(struct timeval time) { return (uint64_t)time.tv_sec * 1000000 + time.tv_usec; }

// A task's output: its file, or the last line of its log.
struct output {
  int fd, log;    // -1: not open
  int64_t size;   // of the file; -1: none
  int error;      // errno of a file that cannot be read
};

// Opens the output file without following links or waiting for pipes: the task can put anything there.
static void open_output_file(const char *path, struct output *output) {
  struct stat info;
  output->fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (output->fd < 0) output->error = errno == ENOENT ? 0 : errno;
  else if (fstat(output->fd, &info)) output->error = errno;
  else if (!S_ISREG(info.st_mode)) output->error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  else output->size = info.st_size;
}

// Opens the log if its last line may be a small output. A log that cannot be read is not complete.
static void open_last_line(struct task *task, struct output *output) {
  if (!task->last.length || task->last.length > INLINE_MAX || task->last.split) return;
  char first = 0;
  errno = EIO;
  output->log = open(task->log_path, O_RDONLY | O_CLOEXEC);
  if (output->log >= 0 && pread(output->log, &first, 1, task->last.offset) == 1) {
    if (first && strchr("{[ \t", first)) return;
    close(output->log);
    output->log = -1;
  } else if (!task->log_errno) {
    task->log_errno = errno;
  }
}

static struct output open_output(struct task *task) {
  struct output output = {-1, -1, -1, 0};
  if (task->output_path) open_output_file(task->output_path, &output);
  if (output.size <= 0 && !output.error) open_last_line(task, &output);
  return output;
}

// Appends the size of the output file, and the file or the last line if it is small.
static void put_output(struct task *task, struct output output) {
  put64(output.size);
  size_t kind = out.length;
  put8(0);
  if (output.size > 0 && output.size <= INLINE_MAX && put_file(output.fd, 0, output.size)) out.data[kind] = 1;
  if (output.size == 0 || out.data[kind]) unlink(task->output_path);
  if (output.log >= 0 && put_file(output.log, task->last.offset, task->last.length)) out.data[kind] = 2;
  if (!out.data[kind]) put_string("", 0);
  if (output.fd >= 0) close(output.fd);
  if (output.log >= 0) close(output.log);
}

static void end_failed(struct task *task) {
  for (int i = 0; i < 2; i++)
    if (task->streams[i].fd >= 0) close_stream(&task->streams[i]);
  put_failed(task->id, task->failure);
  if (task->remove_input && task->input_path) unlink(task->input_path);
  if (task->other_user && task->output_path) unlink(task->output_path);
  free_task(task);
}

static void end_task(struct task *task) {
  if (task->start.fd >= 0) read_start(task);
  if (task->failure.error) {
    end_failed(task);
    return;
  }
  for (int i = 0; i < 2; i++) {
    struct stream *stream = &task->streams[i];
    while (stream->fd >= 0 && read_stream(stream)) continue;
    if (stream->fd >= 0) close_stream(stream);
  }
  log_close(task);
  struct output output = open_output(task);
  int memory_hit = cgroup_end(task);
  size_t at = begin_frame(EXITED, task->id);
  put32(WIFEXITED(task->status) ? WEXITSTATUS(task->status) : -1);
  put32(WIFSIGNALED(task->status) ? WTERMSIG(task->status) : 0);
  put64((uint64_t)task->usage.ru_maxrss * 1024);
  put64(micros(task->usage.ru_utime));
  put64(micros(task->usage.ru_stime));
  put8((memory_hit ? 1 : 0) | (task->last.split ? 2 : 0) | (task->stop_requested ? 4 : 0));
  put32(task->log_errno);
  put32(output.error);
  put64(task->log_size);
  put64(task->last.offset);
  put64(task->last.length);
  put_output(task, output);
  finish_frame(at);
  if (task->remove_input && task->input_path) unlink(task->input_path);
  free_task(task);
}

// Reports ended tasks without remaining processes; schedules another sweep for the others.
static void end_tasks(void) {
  sweep_ended();
  int waiting = 0;
  for (int i = 0; i < task_count;) {
    struct task *task = tasks[i];
    if (!task->exited || task->left) {
      waiting += task->exited;
      i++;
      continue;
    }
    tasks[i] = tasks[--task_count];
    end_task(task);
  }
  sweep_at = waiting ? monotonic_ms() + sweep_interval : 0;
  if (sweep_interval < 50) sweep_interval *= 2;
}

// Writes partial lines that are older than PARTIAL_MS; returns the ms until the next one is due, -1: none.
static int flush_partials(void) {
  int64_t now = 0;
  int next = -1;
  for (int i = 0; i < task_count; i++) {
    for (int k = 0; k < 2; k++) {
      struct stream *stream = &tasks[i]->streams[k];
      if (!stream->pending_len) continue;
      if (!now) now = monotonic_ms();
      int64_t wait = stream->pending_since + PARTIAL_MS - now;
      if (wait <= 0) log_flush(stream);
      else if (next < 0 || wait < next) next = wait;
    }
  }
  return next;
}

static int next_wait(int requests_left) {
  if (requests_left) return 0;
  int wait = flush_partials();
  int64_t next = sweep_at && (!lease_until || sweep_at < lease_until) ? sweep_at : lease_until;
  if (!next) return wait;
  int64_t until = next - monotonic_ms();
  if (until < 0) until = 0;
  return wait < 0 || until < wait ? (int)until : wait;
}

int main(int argc, char **argv) {
  int want_namespace = 1;
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--no-namespace")) want_namespace = 0;
    else sandbox_option(argv[i]);  // other arguments only identify the helper in process lists
  int namespace = isolate(want_namespace);
  prctl(PR_SET_DUMPABLE, 0);  // its memory holds the secrets of all tasks
  static const int ignored[] = {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  poller = epoll_create1(EPOLL_CLOEXEC);
  fcntl(0, F_SETFL, O_NONBLOCK);
  fcntl(1, F_SETFL, O_NONBLOCK);
  watch(0, EPOLLIN, &in);
  watch(1, 0, &out);
  watch(signals, EPOLLIN, &signals);

  size_t at = begin_frame(HELLO, 0);
  put32(VERSION);
  put8(namespace);
  put8(cgroup_detect());
  put8(tags_usable());
  put8(sandbox_state());
  finish_frame(at);
  flush_output();

  int requests_left = 0;
  while (!input_ended) {
    struct epoll_event events[256];
    int count = epoll_wait(poller, events, 256, next_wait(requests_left));
    int exits = 0;
    for (int i = 0; i < count; i++) {
      void *data = events[i].data.ptr;
      if (data == &in) read_requests();
      else if (data == &out) continue;
      else if (data == &signals) exits = 1;
      else read_ready(data);
    }
    requests_left = handle_requests();
    if (exits) reap();
    if (sweep_at && sweep_at <= monotonic_ms()) end_tasks();
    flush_output();
    if (lease_until && lease_until <= monotonic_ms()) break;
  }
  end_isolation();
  for (int i = 0; i < task_count; i++) cgroup_end(tasks[i]);
  cgroup_cleanup();
  return 0;
}
