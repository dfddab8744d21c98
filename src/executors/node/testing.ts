// The functions of the conformance suite in TypeScript.

import type { Language } from "../conformance/function-fixture.ts"

export const typescript: Language = {
  name: "TypeScript",
  extension: "ts",
  functions: `
import { execFileSync, spawn as start } from "node:child_process"
import { mkdirSync, readdirSync, writeSync } from "node:fs"
import { getPriority, setPriority } from "node:os"
import { once } from "node:events"
import { type FunctionContext, FatalError, RetryLater } from "ork"

export const echo = (input: unknown) => input
export const later = async (input: unknown) => { await new Promise((resolve) => setImmediate(resolve)); return input }
export const nothing = () => {}
export const meet = async (count: number, ctx: FunctionContext) => {
  mkdirSync("met-" + process.pid)
  while (readdirSync(".").filter((name) => name.startsWith("met-")).length < count) await new Promise((resolve) => setTimeout(resolve, 2))
}
export const context = (_: unknown, c: FunctionContext) =>
  [c.runId, c.taskId, c.taskName, c.workflowName, c.attempt, c.parallelIndex, c.parallelCount, c.logicalDate]
export const environment = () => ({ ...process.env })
export const folder = () => process.cwd()
export const talk = (_: unknown, ctx: FunctionContext) => {
  console.log("printed")
  console.error("complained")
  execFileSync("sh", ["-c", "echo from a child"], { stdio: "inherit" })
  ctx.log("logged")
  ctx.log.warn("careful")
}
export const flood = () => { for (let i = 0; i < 20000; i++) console.log("line " + i + " " + "x".repeat(40)) }
export const blab = (input: string) => { console.log("it is " + input); throw new Error("I know " + input) }
export const fail = () => { throw new Error("no such row") }
export const throw_odd = (kind: string) => {
  if (kind === "number") throw Object.assign(new Error(), { message: 42 })
  if (kind === "object") throw Object.assign(new Error(), { message: { code: "E1" } })
  if (kind === "nothing") throw Object.assign(new Error(), { message: undefined, name: undefined })
  throw Object.defineProperty(new Error(), "message", { get() { throw new Error("from the getter") } })
}
export const give_up = () => { throw new FatalError("bad input") }
export const come_back = () => { throw new RetryLater("2.5s") }
export const not_json = () => ({ big: 1n })
export const large = (size: number) => "x".repeat(size)
export const measure = (input: { text: string }) => input.text.length
export const advance = (_: unknown, ctx: FunctionContext) => {
  ctx.progress(0.25)
  for (let i = 0; i < 1000; i++) ctx.heartbeat({ rows: i })
  ctx.progress(1, { rows: 3 })
}
export const report_badly = (_: unknown, ctx: FunctionContext) => {
  try { ctx.progress(0.5, { big: 1n } as never) } catch (error) { console.log(String(error)) }
  return "done"
}
export const spin = () => { console.log("spinning"); for (;;) {} }
export const listen = async (_: unknown, { signal }: FunctionContext) => {
  const stopped = once(signal, "abort")
  console.log("listening")
  await stopped
  console.log("cleaned up")
}
export const ignore = (_: unknown, { signal }: FunctionContext) => {
  signal.addEventListener("abort", () => {})
  console.log("ignoring")
  return new Promise((resolve) => setTimeout(resolve, 600_000))
}
export const die = () => { process.kill(process.pid, "SIGKILL"); for (;;) {} }
export const leave = () => process.exit(3)
export const spawn = (mark: string) => { start("setsid", ["sleep", mark], { detached: true, stdio: "ignore" }).unref() }
export const spawn_and_wait = async (mark: string) => {
  await once(start("sleep", [mark], { stdio: "ignore" }), "spawn")
  console.log("waiting")
  await new Promise((resolve) => setTimeout(resolve, 600_000))
}
export const leave_running = (text: string) => { setInterval(() => console.log(text), 1) }
export const pause = () => new Promise((resolve) => setTimeout(resolve, 50))
export const change = (what: string) => {
  if (what === "umask") process.umask(0o007)
  if (what === "priority") setPriority(getPriority() + 1)
  if (what === "output") process.stdout.write = () => true
  if (what === "signals") process.on("SIGUSR2", () => {})
}
let remembered = ""
export const remember = (text: string) => { remembered = text }
export const recall = () => { console.log("recalled " + remembered) }
export const send = (text: string) => { writeSync(3, text) }
export const reject_later = async () => {
  setTimeout(() => void Promise.reject(new Error("nobody handles this")), 1)
  await new Promise((resolve) => setTimeout(resolve, 600_000))
}
export const user = () => process.getuid!()
`,
  returning: (value) => `export default () => ${value}\n`,
  importing: {
    main: `import { value } from "./lib.ts"\nexport default () => value\n`,
    lib: (value) => `export const value: number = ${value}\n`,
    libName: "lib.ts",
  },
}
