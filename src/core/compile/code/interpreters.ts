// Programs that read an argument as code, and the options through which they do. `code-arguments.ts` reads this table; the reference
// of definitions lists what it covers.

export interface Interpreter {
  /** Short options whose value is code. */
  letters?: string
  /** Short options whose value names a file or module with code. */
  files?: string
  /** Short options with another value. */
  values?: string
  /** Long options, without dashes, whose value is code or a file with code. GNU programs accept their beginnings too. */
  long?: readonly string[]
  /** Long options with another value. */
  longValues?: readonly string[]
  /** Whole words, such as `-exec`, after which code follows. */
  words?: readonly string[]
  /**
   * Meaning of operands. `script`: the first is a file with code. `code`: the first is code, unless an option gave it. `all`: all from
   * `from` on are code. `program`: the one at `from` is a program. `names`: an operand that begins with a value is code, as in `unset`.
   */
  operand?: "script" | "code" | "all" | "program" | "names"
  from?: number
  /** The program reads code from standard input when no argument is code. */
  stdin?: true
  /** A shell: options may follow `-c`, and the first operand is then code. */
  shell?: true
  /** Everything after the code is data. */
  last?: true
  /** A command of the shell itself, which no other program can start. */
  builtin?: true
  /** The words may contain another program with its arguments. */
  wrapper?: true
  /** First operands after which a program follows, as in `npm exec`. */
  subcommands?: readonly string[]
}

const SHELL: Interpreter = {
  letters: "c",
  values: "oO",
  long: ["rcfile", "init-file"],
  operand: "script",
  stdin: true,
  shell: true,
}
const AWK: Interpreter = {
  letters: "e",
  files: "fiElD",
  values: "vF",
  long: ["source", "file", "include", "exec", "load"],
  operand: "code",
}
const SED: Interpreter = { letters: "e", files: "f", values: "l", long: ["expression", "file"], operand: "code" }
const PYTHON: Interpreter = { letters: "c", files: "m", values: "WX", operand: "script", stdin: true, last: true }
const PERL: Interpreter = { letters: "eE", files: "IMm", operand: "script", stdin: true }
const RUBY: Interpreter = { letters: "e", files: "Ir", values: "CE", operand: "script", stdin: true }
const NODE: Interpreter = {
  letters: "ep",
  files: "r",
  values: "C",
  long: ["eval", "print", "require", "import", "loader", "experimental-loader"],
  operand: "script",
  stdin: true,
}
const PHP: Interpreter = { letters: "rBRE", files: "fdzc", long: ["run", "file", "define"], operand: "script", stdin: true }
const EVAL: Interpreter = { letters: "eE", long: ["eval", "print", "load", "file"], operand: "script", stdin: true }
const SQL: Interpreter = {
  letters: "ce",
  files: "f",
  long: ["command", "execute", "file", "eval"],
  stdin: true,
  values: "hpUdvPuDS",
}
const SQLITE: Interpreter = { words: ["-cmd", "-init", "-c"], operand: "all", from: 1, stdin: true }
const COMMAND: Interpreter = { letters: "c", long: ["command", "session-command", "call"], values: "sguGtEo", wrapper: true }
const SSH: Interpreter = { letters: "o", files: "F", values: "bcDEeIiJLlmOpQRSWw", operand: "all", from: 1, stdin: true }
const NIX: Interpreter = {
  letters: "Ec",
  files: "pI",
  long: ["run", "command", "expr", "arg"],
  operand: "script",
  wrapper: true,
}
const VIM: Interpreter = { letters: "c", files: "sSu", long: ["cmd"], operand: "names" }
const EMACS: Interpreter = {
  letters: "l",
  long: ["eval", "execute", "load", "script", "funcall"],
  words: ["-eval", "-load", "-f"],
}
const POWERSHELL: Interpreter = {
  words: ["-c", "-Command", "-command", "-e", "-ec", "-EncodedCommand", "-f", "-File"],
  operand: "script",
  stdin: true,
}
const NAMES: Interpreter = { operand: "names", builtin: true }
const ALL: Interpreter = { operand: "all" }
const STDIN: Interpreter = { files: "f", stdin: true }
const WRAPPER: Interpreter = { wrapper: true }
/** Returns a wrapper whose operand at `from` is the program. `values`: its short options with a value. */
const runs = (values: string, from = 0): Interpreter => ({ values, operand: "program", from, wrapper: true })
/** Returns a wrapper that runs a program after a subcommand. */
const subcommands = (...names: string[]): Interpreter => ({ subcommands: names, wrapper: true })

const table = (names: string, interpreter: Interpreter): [string, Interpreter][] =>
  names.split(" ").map((name) => [name, interpreter])

/** By name without a version: `python` stands for python3.12, `sqlite` for sqlite3. */
const INTERPRETERS: ReadonlyMap<string, Interpreter> = new Map([
  ...table("sh bash dash ash zsh ksh mksh yash fish csh tcsh rbash", SHELL),
  ...table("xonsh nu elvish osh ysh posh pdksh oksh loksh mrsh hush rc es", SHELL),
  ...table("awk gawk mawk nawk", AWK),
  ...table("sed gsed", SED),
  ...table("python pypy ipython", PYTHON),
  ...table("perl", PERL),
  ...table("ruby jruby", RUBY),
  ...table("node nodejs bun tsx ts-node", NODE),
  ...table("deno", { ...NODE, words: ["eval"], wrapper: true }),
  ...table("php", PHP),
  ...table("lua luajit", { letters: "e", files: "l", operand: "script", stdin: true }),
  ...table("R Rscript julia groovy scala clojure clj guile sbcl ghc elixir octave gnuplot osascript raku swipl", EVAL),
  ...table("erl", { words: ["-eval", "-run", "-s"] }),
  ...table("tclsh wish expect", { letters: "c", operand: "script", stdin: true }),
  ...table("pwsh powershell", POWERSHELL),
  ...table("vim vi nvim ex view", VIM),
  ...table("emacs emacsclient", EMACS),
  ...table("gdb lldb", {
    words: ["-ex", "-iex", "-o", "-x"],
    long: ["eval-command", "init-eval-command", "command", "one-line"],
    wrapper: true,
  }),
  ...table("dc", { letters: "e", files: "f", long: ["expression", "file"], operand: "script", stdin: true }),
  ...table("ed m4 at batch", STDIN),
  ...table("crontab", { values: "u", operand: "script", stdin: true }),
  ...table("nc ncat netcat", { letters: "ec", long: ["exec", "sh-exec", "lua-exec"], values: "lpswiXx" }),
  ...table("man", { letters: "PH", long: ["pager", "html"] }),
  ...table("tcpdump", { letters: "z" }),
  ...table("wget", { letters: "e", long: ["execute", "use-askpass"], values: "aBiloOPQtTUw" }),
  ...table("ansible", { letters: "a", long: ["args"] }),
  ...table("psql mysql mariadb mongosh mongo", SQL),
  ...table("sqlite duckdb", SQLITE),
  ...table("make gmake", { files: "f", values: "CIjlo", long: ["eval", "file", "makefile"], operand: "all" }),
  ...table("env", {
    letters: "S",
    values: "uC",
    long: ["split-string"],
    longValues: ["unset", "chdir"],
    operand: "program",
    wrapper: true,
  }),
  ...table("xargs", { values: "nLIPdEsa", operand: "program", wrapper: true }),
  ...table("flock script su runuser newgrp", COMMAND),
  ...table("npx bunx pnpx uvx", { ...runs(""), letters: "c", files: "p", long: ["call", "package", "from", "with"] }),
  ...table("npm pnpm yarn", { ...COMMAND, ...subcommands("exec", "x", "dlx") }),
  ...table("pipx uv poetry pipenv pdm hatch rye conda mamba micromamba", subcommands("run")),
  ...table("bundle asdf mise direnv pyenv rbenv", subcommands("exec", "x")),
  ...table("sg", { letters: "c", operand: "all", from: 1 }),
  ...table("watch parallel", { values: "njd", ...ALL }),
  ...table("screen", { files: "c", values: "SptehsT", ...ALL }),
  ...table("tmux", { letters: "c", files: "f", values: "FLSnstlpxyXY", ...ALL }),
  ...table("socat pdsh pssh", ALL),
  ...table("lftp", { letters: "ce", files: "f", stdin: true }),
  ...table("nix-shell nix-build nix-instantiate nix", NIX),
  ...table("ssh autossh slogin rsh", SSH),
  ...table("scp sftp", { letters: "oS", files: "F" }),
  ...table("rsync", { letters: "e", long: ["rsh", "rsync-path"] }),
  ...table("git", {
    letters: "c",
    values: "C",
    long: ["upload-pack", "receive-pack", "exec", "config", "config-env"],
    operand: "program",
  }),
  ...table("tar", {
    letters: "IF",
    values: "fCbTXN",
    long: [
      "use-compress-program",
      "to-command",
      "checkpoint-action",
      "info-script",
      "new-volume-script",
      "rsh-command",
      "rmt-command",
    ],
  }),
  ...table("zip", { words: ["-TT"], long: ["unzip-command"] }),
  ...table("sort", { long: ["compress-program"] }),
  ...table("split", { long: ["filter"] }),
  ...table("sbatch", { long: ["wrap"], operand: "script" }),
  ...table("find", { words: ["-exec", "-execdir", "-ok", "-okdir"], wrapper: true }),
  ...table("source .", { operand: "script", builtin: true }),
  ...table("trap", { operand: "code", builtin: true }),
  ...table("hash", { files: "p", builtin: true }),
  ...table("enable", { files: "f", builtin: true }),
  ...table("let alias", { ...ALL, builtin: true }),
  ...table("unset read declare typeset local export readonly mapfile readarray getopts", NAMES),
  ...table("test [ printf", { words: ["-v"] }),
  ...table("exec command builtin", { operand: "program", builtin: true, wrapper: true }),
  ...table("nohup setsid", { operand: "program", wrapper: true }),
  ...table("sudo doas", runs("ugCDhprRTUa")),
  ...table("nice ionice", runs("ncpPu")),
  ...table("time stdbuf", runs("foie")),
  ...table("strace ltrace", runs("aAbeEIoOpPsSuUX")),
  ...table("busybox toybox tini dumb-init systemd-run", runs("pGuMHE")),
  ...table("timeout chroot taskset chrt gosu su-exec setuidgid", runs("ksTPD", 1)),
  ...table("setpriv unshare nsenter docker podman nerdctl kubectl oc srun mpirun xvfb-run", WRAPPER),
  ...table("sshpass chpst firejail bwrap proot fakeroot faketime cgexec numactl prlimit valgrind perf unbuffer", WRAPPER),
  ...table("singularity apptainer", WRAPPER),
])

/** A program that a variable names, such as `$SHELL`. */
export const UNKNOWN_PROGRAM: { name: string; interpreter: Interpreter } = {
  name: "the program that a variable names",
  interpreter: { letters: "c", wrapper: true },
}

/** Finds a program by the word that names it, such as `/usr/bin/python3.12`. */
export const interpreterOf = (word: string): { name: string; interpreter: Interpreter } | null => {
  const name = word.slice(word.lastIndexOf("/") + 1)
  const interpreter = INTERPRETERS.get(name) ?? INTERPRETERS.get(name.replace(/[0-9.]{1,12}$/, ""))
  return interpreter === undefined ? null : { name, interpreter }
}

/** Variables that make programs load or run code. */
const CODE_VARIABLES =
  /^(?:LD_.*|DYLD_.*|PATH|ENV|BASH_ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|IFS|PS[0-4]|PROMPT_COMMAND|NODE_OPTIONS|NODE_PATH|NODE_REPL_.*|PYTHON(?:PATH|HOME|STARTUP|WARNINGS|BREAKPOINT|USERBASE|EXECUTABLE|INSPECT|PLATLIBDIR)|PERL(?:5LIB|LIB|5OPT|5DB|IO)|RUBY(?:OPT|LIB)|GEM_(?:HOME|PATH)|BUNDLE_GEMFILE|CLASSPATH|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|MAVEN_OPTS|LUA_(?:INIT|PATH|CPATH).*|PHPRC|PHP_INI_SCAN_DIR|R_(?:PROFILE|ENVIRON).*|JULIA_(?:LOAD_PATH|DEPOT_PATH)|GIT_(?:SSH|SSH_COMMAND|EXTERNAL_DIFF|EDITOR|SEQUENCE_EDITOR|PAGER|PROXY_COMMAND|ASKPASS|EXEC_PATH|TEMPLATE_DIR|CONFIG.*)|PAGER|MANPAGER|EDITOR|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|SSH_ASKPASS|SUDO_ASKPASS|RSYNC_RSH|CVS_RSH|TAR_OPTIONS|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|AWKPATH|AWKLIBPATH|GCONV_PATH|GLIBC_TUNABLES|OPENSSL_CONF|OPENSSL_MODULES)$/

export const loadsCode = (variable: string): boolean => CODE_VARIABLES.test(variable)
