// Runs the commands of Slurm (sbatch, squeue, scontrol, scancel), here or behind a prefix such as `ssh login1`, with a time
// limit.

import { spawn } from "node:child_process"
import { basename } from "node:path"

const CALL_MS = 60_000
const MAX_STDOUT_BYTES = 256 << 20
const MAX_STDERR_CHARS = 4096
/** Variables of the server that the commands inherit, and with them the jobs. */
const INHERITED = ["PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "SLURM_CONF"]
/** Variables for the prefix command, which jobs do not inherit. */
const INHERITED_BY_PREFIX = ["SSH_AUTH_SOCK", "SSH_AGENT_PID"]

export class CommandMissing extends Error {}

export class SlurmCli {
  readonly #prefix: string[]
  readonly #env: { [name: string]: string }
  readonly #callMs: number

  /** `prefix`: words before each command, separated by blanks. */
  constructor(prefix: string, env: NodeJS.ProcessEnv, callMs = CALL_MS) {
    this.#callMs = callMs
    this.#prefix = prefix.split(/\s+/).filter((word) => word !== "")
    const names = this.#prefix.length === 0 ? INHERITED : [...INHERITED, ...INHERITED_BY_PREFIX]
    this.#env = Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])))
    // Without it, Slurm abbreviates lists of array tasks.
    this.#env["SLURM_BITSTR_LEN"] = "0"
  }

  /** Returns the command's stdout; rejects with its stderr when it fails. */
  call(program: string, args: string[], input = ""): Promise<string> {
    const [first = program, ...rest] = this.#commandLine(program, args)
    return new Promise((resolve, reject) => {
      const child = spawn(first, rest, { env: this.#env, stdio: "pipe", timeout: this.#callMs, killSignal: "SIGKILL" })
      const stdout: Buffer[] = []
      let size = 0
      let stderr = ""
      child.stdout.on("data", (data: Buffer) => {
        size += data.length
        if (size <= MAX_STDOUT_BYTES) stdout.push(data)
        else child.kill("SIGKILL")
      })
      child.stderr.on("data", (data: Buffer) => (stderr = (stderr + data.toString()).slice(-MAX_STDERR_CHARS)))
      child.on("error", (error: NodeJS.ErrnoException) =>
        reject(
          error.code === "ENOENT"
            ? new CommandMissing(`${first} was not found: install Slurm's commands where Ork runs, or set slurm_command`)
            : new Error(error.message),
        ),
      )
      child.on("close", (code, signal) => {
        if (code === 0) resolve(Buffer.concat(stdout).toString("utf8"))
        else reject(new Error(errorLines(stderr) || `${program} ended with ${signal ?? `code ${code}`}`))
      })
      child.stdin.on("error", () => {})
      child.stdin.end(input)
    })
  }

  /** Quotes the arguments for ssh, which joins them and passes them to a shell. */
  #commandLine(program: string, args: string[]): string[] {
    const remote = basename(this.#prefix[0] ?? "") === "ssh"
    return [...this.#prefix, program, ...(remote ? args.map(quote) : args)]
  }
}

/** Joins the lines without their prefix, as in `sbatch: error: Batch job submission failed: …`. */
const errorLines = (text: string): string =>
  text
    .split("\n")
    .map((line) => line.replace(/^\w+: (?:error: )?/, "").trim())
    .filter((line) => line !== "")
    .join("; ")

/** Quotes a text as one word of a shell. */
export const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
