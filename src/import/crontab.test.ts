import { describe, expect, it } from "vitest"
import { importCrontab } from "./crontab.ts"
import type { TaskDefinition } from "../core/model/definition.ts"
import { parseDefinition } from "../definition/parse.ts"

const options = { timezone: "Europe/Berlin", home: "/home/ada", hasUsers: false }
const convert = (text: string, change: Partial<typeof options> = {}) => importCrontab(text, { ...options, ...change })
const taskOf = (text: string, change: Partial<typeof options> = {}): TaskDefinition =>
  convert(text, change).workflows[0]!.definition.tasks["job"] as TaskDefinition

describe("a crontab", () => {
  it("becomes one workflow per entry, named after its program and described by the comment above it", () => {
    const { workflows, problems } = convert(
      [
        "# Nightly backup",
        "15 2 * * 1-5 /opt/backup.sh --full",
        "",
        "@hourly cd /srv && ./sync.py",
        "0 4 * * * /opt/backup.sh",
      ].join("\n"),
    )
    expect(problems).toEqual([])
    expect(workflows.map(({ line, definition }) => [line, definition.name, definition.description])).toEqual([
      [2, "backup", "Nightly backup"],
      [4, "sync", undefined],
      [5, "backup-2", undefined],
    ])
    expect(workflows[0]!.definition.schedule).toEqual({ cron: "15 2 * * 1-5", timezone: "Europe/Berlin", overlap: "allow" })
    expect(workflows[1]!.definition.schedule).toMatchObject({ cron: "0 * * * *" })
    for (const { definition } of workflows)
      expect(parseDefinition(JSON.stringify(definition), { file: "x.json" })).toMatchObject({ ok: true })
  })

  it("passes its variables, time zone, home and shell to the entries below", () => {
    const text = ['PATH="/usr/local/bin:/usr/bin"', "CRON_TZ=UTC", "HOME=/srv", "SHELL=/bin/bash", "* * * * * ./tick"].join(
      "\n",
    )
    expect(convert(text).workflows[0]!.definition.schedule).toMatchObject({ timezone: "UTC" })
    expect(taskOf(text)).toEqual({
      command: "./tick",
      shell: "bash",
      working_dir: "/srv",
      timeout: "7d",
      env: { PATH: "/usr/local/bin:/usr/bin" },
    })
  })

  it("keeps the meaning of %, of several commands in a line, and of braces", () => {
    expect(taskOf("0 1 * * * mail -s hi bob%line one%line two").command).toBe(
      "{ mail -s hi bob; } <<'END_OF_INPUT'\nline one\nline two\nEND_OF_INPUT",
    )
    expect(taskOf("0 1 * * * date +\\%F > day").command).toBe("date +%F > day")
    expect(taskOf("0 1 * * * a; b").shell).toEqual(["/bin/sh", "-c"])
    expect(taskOf("0 1 * * * echo '${{ x }}'").command).toBe("echo '$${{ x }}'")
  })

  it("of the system has a user in every entry", () => {
    expect(taskOf("17 * * * * root run-parts /etc/cron.hourly", { hasUsers: true })).toMatchObject({
      command: "run-parts /etc/cron.hourly",
      run_as: "root",
    })
  })

  it("reports every line that it cannot convert", () => {
    const { workflows, problems } = convert(
      ["@reboot /opt/start", "MAILTO=ops@example.com", "# 0 0 * * * off", "hello", "0 0 * *", "@never x"].join("\n"),
    )
    expect(workflows).toEqual([])
    expect(problems.map(({ line, message }) => `${line} ${message.slice(0, 24)}`)).toEqual([
      "1 @reboot is not a schedul",
      "2 MAILTO=ops@example.com: ",
      "4 is neither an entry (fiv",
      "5 is neither an entry (fiv",
      "6 there is no schedule @ne",
    ])
  })

  it("with 500 entries takes less than a second", () => {
    const text = Array.from({ length: 500 }, (_, i) => `${i % 60} * * * * /opt/job-${i}.sh`).join("\n")
    const began = performance.now()
    expect(convert(text).workflows).toHaveLength(500)
    expect(performance.now() - began).toBeLessThan(1000)
  })
})
