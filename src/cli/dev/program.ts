// A user's program that runs in a process of its own, and again after each change of its files. The engine in the program reports what it
// has opened (sdk/opened-report.ts).

import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import type { OpenedReport } from "../../sdk/opened-report.ts"
import { SourceWatcher } from "./source-watcher.ts"

/** Time for the program to end after SIGTERM. */
const GRACE_MS = 10_000

export interface ProgramOptions {
  file: string
  args: readonly string[]
  cwd: string
  env: { [name: string]: string | undefined }
  /** The program has opened an engine. */
  opened(report: OpenedReport): void
  /** Prints a line about the program. */
  log(line: string): void
}

export class Program {
  readonly #options: ProgramOptions
  #child: ChildProcess | null = null
  #watcher: SourceWatcher | null = null
  #restarting: Promise<void> = Promise.resolve()
  #stopped = false

  constructor(options: ProgramOptions) {
    this.#options = options
  }

  start(): void {
    this.#watcher = new SourceWatcher(this.#options.cwd, (file) => this.#restart(file))
    this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#watcher?.stop()
    await this.#restarting
    await this.#end()
  }

  #run(): void {
    const { file, args, cwd, env, opened, log } = this.#options
    const child = fork(file, args, {
      cwd,
      env: { ...env, ORK_DEV: "1" },
      execArgv: [],
      stdio: ["inherit", "inherit", "inherit", "ipc"],
    })
    this.#child = child
    child.on("message", (message) => {
      if (typeof message === "object" && "ork" in message) opened(message as OpenedReport)
    })
    child.on("exit", (code, signal) => {
      if (this.#child !== child) return
      this.#child = null
      log(`${file} ended with ${signal ?? `code ${code}`}; waiting for a change`)
    })
  }

  #restart(changed: string): void {
    this.#restarting = this.#restarting.then(async () => {
      if (this.#stopped) return
      this.#options.log(`${changed} has changed; restarting`)
      await this.#end()
      this.#run()
    })
  }

  /** Ends the program, by force if it does not end within the grace period. */
  async #end(): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, "exit")
    child.kill("SIGTERM")
    const timer = setTimeout(() => child.kill("SIGKILL"), GRACE_MS)
    await exited
    clearTimeout(timer)
  }
}
