// Tests that secrets are neither in the log nor in a stored output, however the task writes them.

import { expect, test } from "vitest"
import { assignment, launch } from "./fixture.ts"
import type { ExecutorFixture } from "./fixture.ts"

const SECRET = "hunter2-and-more"

export const secretTests = (fixture: () => ExecutorFixture): void => {
  const run = async (script: string, secret = SECRET) => {
    const work = assignment(fixture().folder, { shell: script }, { env: { TOKEN: secret }, secrets: [secret] })
    const launched = launch(fixture(), work)
    const result = await launched.result
    const stored = await fixture().objects.list(work.prefix)
    const texts = await Promise.all(stored.map(async (key) => Buffer.from((await fixture().objects.get(key)) ?? []).toString()))
    const log = stored.indexOf(`${work.prefix}log`)
    return { result, log: texts[log] ?? "", everything: texts.join("\n") }
  }

  test("a secret is masked on both streams, also inside of other text", async () => {
    const { log, everything } = await run('echo "<$TOKEN$TOKEN>"; echo "to stderr: $TOKEN" >&2; echo "${TOKEN%more}"')
    expect(log.split("\n").toSorted()).toEqual(["", "<******>", "hunter2-and-", "to stderr: ***"])
    expect(everything).not.toContain(SECRET)
  })

  test("a secret is masked even if it is written in pieces, slower than partial lines are stored", async () => {
    const { log } = await run(
      'printf "say: hunter2"; sleep 0.4; printf -- "-and"; printf -- "-mor"; printf e; echo; printf hunter2',
    )
    expect(log).toBe("say: ***\nhunter2")
  })

  test("a stream of secrets without newlines is masked in constant memory", async () => {
    const script =
      'i=0; while [ $i -lt 300 ]; do t="$t$TOKEN."; i=$((i+1)); done; i=0; while [ $i -lt 100 ]; do printf %s "$t"; i=$((i+1)); done'
    const { log } = await run(script)
    expect(log).toBe("***.".repeat(30_000))
  })

  test("each line of a secret with several lines is masked", async () => {
    const { log } = await run('echo "$TOKEN" | sed "s/^/> /"', "first line\nsecond line")
    expect(log).toBe("> ***\n> ***\n")
  })

  test("an output on the last line is masked", async () => {
    const { result } = await run(`printf '{"token":"%s"}' "$TOKEN"`)
    expect(result).toMatchObject({ state: "success", output: { inline: { token: "***" } } })
  })

  test("an output that is stored is masked", async () => {
    const script = `{ printf '["'; head -c 100000 /dev/zero | tr '\\0' x; printf '","%s"]' "$TOKEN"; } > $ORK_OUTPUT`
    const { result, everything } = await run(script)
    expect(result).toMatchObject({ state: "success", output: { bytes: 100_010 } })
    expect(everything).toContain('x","***"]')
    expect(everything).not.toContain(SECRET)
  })
}
