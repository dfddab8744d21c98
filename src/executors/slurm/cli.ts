// Runs the commands of Slurm (sbatch, squeue, scontrol, scancel), here or behind a prefix such as `ssh login1`. Every one has an end.

import { spawn } from "node:child_process"
import { basename } from "node:path"

const CALL_MS = 60_000
const MAX_OUT = 256 << 20
/** Of the server's environment, what the commands need. A job sees it too. */
const PASSED = ["PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "SLURM_CONF"]
/** What a command in front of them may need; a job elsewhere does not see it. */
const PASSED_ON = ["SSH_AUTH_SOCK", "SSH_AGENT_PID"]

export class CommandMissing extends Error {}

export class SlurmCli {
  readonly #prefix: string[]
  readonly #env: { [name: string]: string }
  readonly #callMs: number

  /** `prefix`: words that go in front of each command. */
  constructor(prefix: string, env: NodeJS.ProcessEnv, callMs = CALL_MS) {
    this.#callMs = callMs
    this.#prefix = prefix.split(/\s+/).filter((word) => word !== "")
    const passed = this.#prefix.length === 0 ? PASSED : [...PASSED, ...PASSED_ON]
    this.#env = Object.fromEntries(passed.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])))
    // Lists of array tasks are cut short otherwise.
    this.#env["SLURM_BITSTR_LEN"] = "0"
  }

  /** What the command wrote; rejects with what it said when it failed. */
  call(program: string, args: string[], input = ""): Promise<string> {
    const [first = program, ...rest] = this.#words(program, args)
    return new Promise((resolve, reject) => {
      const child = spawn(first, rest, { env: this.#env, stdio: "pipe", timeout: this.#callMs, killSignal: "SIGKILL" })
      const out: Buffer[] = []
      let size = 0
      let said = ""
      child.stdout.on("data", (data: Buffer) => {
        size += data.length
        if (size <= MAX_OUT) out.push(data)
        else child.kill("SIGKILL")
      })
      child.stderr.on("data", (data: Buffer) => (said = (said + data.toString()).slice(-4096)))
      child.on("error", (error: NodeJS.ErrnoException) =>
        reject(
          error.code === "ENOENT"
            ? new CommandMissing(`${first} was not found: install Slurm's commands where Ork runs, or set slurm_command`)
            : new Error(error.message),
        ),
      )
      child.on("close", (code, signal) => {
        if (code === 0) resolve(Buffer.concat(out).toString("utf8"))
        else reject(new Error(sayings(said) || `${program} ended with ${signal ?? `code ${code}`}`))
      })
      child.stdin.on("error", () => {})
      child.stdin.end(input)
    })
  }

  /** ssh joins its arguments and gives them to a shell. */
  #words(program: string, args: string[]): string[] {
    const remote = basename(this.#prefix[0] ?? "") === "ssh"
    return [...this.#prefix, program, ...(remote ? args.map(quote) : args)]
  }
}

/** `sbatch: error: Batch job submission failed: …` */
const sayings = (text: string): string =>
  text
    .split("\n")
    .map((line) => line.replace(/^\w+: (?:error: )?/, "").trim())
    .filter((line) => line !== "")
    .join("; ")

/** One word for a shell, whatever is in it. */
export const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
