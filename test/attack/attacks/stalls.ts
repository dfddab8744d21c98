// Requests, definitions, values and outputs of tasks that try to block the server or to exhaust its memory. They succeed by the limits of
// every attack.

import type { Attack } from "../attack.ts"
import { pause, type Target } from "../target.ts"

const stall = (name: string, attack: (target: Target) => Promise<unknown>, options: { flood?: true } = {}): Attack => ({
  name: `stall: ${name}`,
  ...options,
  async run(target) {
    await attack(target)
    return null
  },
})

const deployed = async (target: Target, definition: object): Promise<void> => {
  const rejected = await target.deploy(definition)
  if (rejected !== null) throw new Error(rejected)
}

/** Runs a task, and then reads everything that the API shows of it, in every form. */
const runAndRead = async (target: Target, name: string, tasks: object, task = "a"): Promise<void> => {
  await deployed(target, { name, tasks })
  const run = await target.run(name)
  if (!("id" in run)) throw new Error(run.rejected)
  for (const accept of ["text/plain", "application/x-ndjson", "text/event-stream"]) {
    for (const query of ["", "?offset=-1000", "?offset=5000000"]) {
      await read(target, `/runs/${run.id}/tasks/${task}/logs${query}`, accept)
    }
  }
  for (const path of ["", "/tasks", `/tasks/${task}`, `/tasks/${task}/output`, "/explain", "/view", "/export"]) {
    await read(target, `/runs/${run.id}${path}`, "application/json")
  }
}

/** Reads a response and discards it. */
const read = async (target: Target, path: string, accept: string): Promise<void> => {
  const response = await fetch(target.url + path, {
    headers: { "x-api-key": target.key, accept },
    signal: AbortSignal.timeout(60_000),
  })
  for await (const part of (response.body ?? []) as AsyncIterable<Uint8Array>) void part
}

const open = (target: Target, path: string, body: string) => target.call("POST", path, { key: null, body })

const validate = (target: Target, definition: unknown) =>
  target.call("POST", "/workflows/validate", { body: definition }).catch((error: unknown) => error)

const withParam =
  (schema: object, value: unknown) =>
  async (target: Target): Promise<void> => {
    const rejected = await target.deploy({ name: "schema", params: { v: schema }, tasks: { a: { command: "true" } } })
    if (rejected === null)
      await target.call("POST", "/workflows/schema/runs", { body: { params: { v: value } } }).catch(() => {})
  }

const task = (command: unknown) => ({ name: "v", params: { v: { type: "string" } }, tasks: { a: { command } } })

const twice = ($ref: string): object => ({ anyOf: [{ $ref }, { $ref }] })

/** A task with an output of 58 MB. */
const LARGE = {
  command: `{ printf '{"list":['; yes '"abcdefghijklmnopqrstuvwxyz",' | head -n 2000000 | tr -d '\\n'; printf '1]}'; } > "$ORK_OUTPUT"`,
  timeout: "60s",
}

/** Bodies of definitions in YAML. */
const YAML: { [name: string]: () => string } = {
  "a YAML document nested 100,000 levels deep": () => `a: ${"[".repeat(100_000)}`,
  "a YAML document of 100,000 anchors": () => Array.from({ length: 40_000 }, (_, i) => `a${i}: &a${i} ${i}`).join("\n"),
  "YAML merge keys that multiply": () =>
    [
      "a0: &a0 { x: 1 }",
      ...Array.from({ length: 25 }, (_, i) => `a${i + 1}: &a${i + 1} { <<: [*a${i}, *a${i}], y${i}: *a${i} }`),
    ].join("\n"),
  "a YAML document of 200,000 keys": () => Array.from({ length: 100_000 }, (_, i) => `k${i}:`).join("\n"),
  "YAML with 100,000 documents": () => "---\n".repeat(200_000),
  "YAML with tags that name code": () =>
    "name: !!js/function 'x'\ntasks: !!python/object/apply:os.system ['true']\n".repeat(5000),
  "a YAML scalar of 900 KB of quotes": () => `name: ${"'".repeat(900_000)}`,
  "a YAML scalar of 900 KB of spaces": () => `name: "${" ".repeat(900_000)}`,
  "YAML with 200,000 comments": () => "# c\n".repeat(200_000),
}

export const stallAttacks: Attack[] = [
  stall("1 MB of long numbers on an open route", (target) =>
    Promise.all(
      ["/ui/sign-in", "/internal/task-result", "/hooks/x"].map((path) =>
        open(target, path, `{"a":[${"1".repeat(1_000_000)}]}`),
      ),
    ),
  ),
  stall("90,000 keys on an open route", (target) =>
    open(target, "/ui/sign-in", JSON.stringify(Object.fromEntries(Array.from({ length: 90_000 }, (_, i) => [`k${i}`, 1])))),
  ),
  stall("deeply nested JSON on an open route", (target) => open(target, "/ui/sign-in", "[".repeat(500_000))),
  stall(
    "45 large requests at once",
    (target) =>
      Promise.all(
        Array.from({ length: 45 }, () => open(target, "/ui/sign-in", `{"key":"${"x".repeat(900_000)}"}`).catch(() => {})),
      ),
    { flood: true },
  ),
  stall("a pattern with exponential backtracking", (target) =>
    validate(target, {
      name: "v",
      params: { v: { type: "string", pattern: "^(a+)+$", default: `${"a".repeat(60)}!` } },
      tasks: { a: { command: "true" } },
    }),
  ),
  stall("the same pattern at a trigger", withParam({ type: "string", pattern: "^(a+)+$" }, `${"a".repeat(60)}!`)),
  stall("the same pattern in an expression", async (target) => {
    const tasks = { a: { if: `params.v.matches("^(a+)+$")`, command: "true" } }
    if ((await target.deploy({ name: "matching", params: { v: { type: "string" } }, tasks })) !== null) return
    await target.run("matching", { v: `${"a".repeat(60)}!` })
  }),
  stall("a command of 40,000 exclamation marks", (target) => validate(target, task("! ".repeat(40_000)))),
  stall("a command of 16,000 expressions", (target) => validate(target, task("-c ${{ params.v }} ".repeat(16_000)))),
  stall("20,000 patternProperties", (target) =>
    validate(target, {
      name: "v",
      params: {
        v: { type: "object", patternProperties: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`^k${i}$`, {}])) },
      },
      tasks: { a: { command: "true" } },
    }),
  ),
  stall(
    "uniqueItems over 20,000 objects",
    withParam(
      { type: "array", uniqueItems: true },
      Array.from({ length: 20_000 }, (_, i) => ({ i })),
    ),
  ),
  stall("8,000 unknown dependencies", (target) =>
    validate(target, {
      name: "v",
      tasks: Object.fromEntries(Array.from({ length: 8000 }, (_, i) => [`t${i}`, { command: "true", depends_on: [`no${i}`] }])),
    }),
  ),
  stall("8,000 schedules", (target) =>
    validate(target, {
      name: "v",
      schedule: Array.from({ length: 8000 }, () => ({ cron: "0 0 29 2 1" })),
      tasks: { a: { command: "true" } },
    }),
  ),
  stall("a YAML bomb", (target) => {
    const levels = Array.from(
      { length: 30 },
      (_, i) =>
        `a${i}: &a${i} [${
          i === 0
            ? "x"
            : Array(9)
                .fill(`*a${i - 1}`)
                .join(",")
        }]`,
    )
    return target
      .call("POST", "/workflows/validate", { body: levels.join("\n"), headers: { "content-type": "application/yaml" } })
      .catch(() => {})
  }),
  stall("an expression over 900 KB", async (target) => {
    const grown = Array(40).fill("params.v").join(" + ")
    const tasks = { a: { command: `echo \${{ size(${grown}) }}`, timeout: "10s" } }
    if ((await target.deploy({ name: "growing", params: { v: { type: "string" } }, tasks })) !== null) return
    await target.run("growing", { v: "x".repeat(900_000) })
  }),
  ...Object.entries(YAML).map(([name, text]) =>
    stall(name, (target) =>
      target
        .call("POST", "/workflows/validate", { body: text(), headers: { "content-type": "application/yaml" } })
        .catch(() => {}),
    ),
  ),
  stall("deeply nested JSON as a definition", (target) =>
    target.call("POST", "/workflows", { body: `{"name":"v","tasks":${"[".repeat(400_000)}` }),
  ),
  stall("a schema with 2^24 alternatives", async (target) => {
    const inner = (depth: number): object =>
      depth === 0 ? { type: "string" } : { anyOf: [inner(depth - 1), inner(depth - 1)] }
    await withParam(inner(10), 1)(target)
    const definitions = Object.fromEntries(
      Array.from({ length: 24 }, (_, i) => [`d${i}`, i === 23 ? { type: "string" } : twice(`#/$defs/d${i + 1}`)]),
    )
    await withParam({ $ref: "#/$defs/d0", $defs: definitions }, 1)(target)
    // Types may refer to each other, which makes the alternatives of a short definition many.
    const types = Object.fromEntries(
      Array.from({ length: 24 }, (_, i) => [`T${i}`, i === 23 ? { type: "string" } : twice(`T${i + 1}`)]),
    )
    await target.deploy({ name: "typed", types, params: { v: { $ref: "T0" } }, tasks: { a: { command: "true" } } })
    await target.call("POST", "/workflows/typed/runs", { body: { params: { v: 1 } } }).catch(() => {})
  }),
  stall("an expression with four nested loops over 500 items", async (target) => {
    const v = "params.v"
    const loops = `${v}.all(a, ${v}.all(b, ${v}.all(c, ${v}.all(d, a + b + c + d >= 0))))`
    await deployed(target, {
      name: "loops",
      params: { v: { type: "array" } },
      tasks: { a: { if: loops, command: "true", timeout: "10s" } },
    })
    const created = await target.call("POST", "/workflows/loops/runs", {
      body: { params: { v: Array.from({ length: 500 }, (_, i) => i) } },
    })
    await pause(3000)
    await target.call("POST", `/runs/${String(created.body["id"])}/cancel`, { body: {} })
  }),
  stall("an expression that doubles a text 30 times", async (target) => {
    const doubled = Array.from({ length: 30 }).reduce<string>((inner) => `[${inner}].map(x, x + x)[0]`, '"aaaaaaaaaa"')
    const rejected = await target.deploy({ name: "doubling", tasks: { a: { if: `size(${doubled}) > 0`, command: "true" } } })
    if (rejected === null) await target.run("doubling")
  }),
  stall("a backfill of a thousand years", async (target) => {
    await deployed(target, { name: "old", schedule: "* * * * *", tasks: { a: { command: "true" } } })
    await target.call("POST", "/workflows/old/backfill", { body: { from: "1000-01-01", to: "2999-12-31", plan: true } })
    await target.call("DELETE", "/workflows/old")
  }),
  stall("a workflow of 5,000 tasks", async (target) => {
    const tasks = Object.fromEntries(
      Array.from({ length: 5000 }, (_, i) => [`t${i}`, { command: "true", ...(i > 0 && { depends_on: [`t${i - 1}`] }) }]),
    )
    await target.call("POST", "/workflows", { body: { name: "long", tasks } })
    for (const path of ["/workflows/long", "/workflows/long/versions", "/workflows"]) await target.call("GET", path)
    await target.call("DELETE", "/workflows/long")
  }),
  stall("a run with 20,000 instances", async (target) => {
    await deployed(target, {
      name: "wide",
      params: { n: { type: "array" } },
      tasks: { a: { foreach: "${{ params.n }}", concurrency: 1, command: "true" } },
    })
    const created = await target.call("POST", "/workflows/wide/runs", {
      body: { params: { n: Array.from({ length: 20_000 }, (_, i) => i) } },
    })
    if (created.status !== 201) throw new Error(created.text)
    const id = String(created.body["id"])
    await pause(2000)
    for (const path of ["", "/tasks", "/tasks?limit=100", "/view", "/explain", "/tasks/a"]) {
      await read(target, `/runs/${id}${path}`, "application/json")
    }
    await target.call("POST", `/runs/${id}/cancel`, { body: {} })
    await target.call("DELETE", `/runs/${id}`)
  }),
  stall("1,000 jobs in one request", async (target) => {
    const jobs = Array.from({ length: 1000 }, (_, i) => ({ name: `j${i}`, queue: "stalling", payload: "x".repeat(900) }))
    await target.call("POST", "/jobs/batch", { body: { jobs } })
  }),
  stall("a log line of 60 MB", (target) =>
    runAndRead(target, "line", { a: { command: "head -c 60000000 /dev/zero | tr '\\0' x", timeout: "60s" } }),
  ),
  stall("a million log lines", (target) =>
    runAndRead(target, "lines", { a: { command: "yes | head -n 1000000", timeout: "60s" } }),
  ),
  stall("a last line of 30 MB that is JSON", (target) =>
    runAndRead(target, "last", {
      a: { command: "printf '{\"a\":\"'; head -c 30000000 /dev/zero | tr '\\0' x; printf '\"}\\n'", timeout: "60s" },
    }),
  ),
  stall("an output of 60 MB, which an expression reads", (target) =>
    runAndRead(target, "large", {
      a: LARGE,
      b: { depends_on: ["a"], if: "size(tasks.a.output.list) > 3", command: "true", timeout: "60s" },
    }),
  ),
  stall("an output of 60 MB, which is the input of another task", (target) =>
    runAndRead(target, "large", { a: LARGE, b: { depends_on: ["a"], command: "wc -c < $ORK_INPUT", timeout: "60s" } }),
  ),
  stall("an output of 60 MB with a schema", (target) =>
    runAndRead(target, "large", { a: { ...LARGE, output: { type: "object" } } }),
  ),
  stall("an output of 60 MB of a sub-workflow", async (target) => {
    await deployed(target, { name: "large-child", tasks: { a: LARGE } })
    await runAndRead(target, "large", { a: { executor: "workflow", workflow: "large-child", timeout: "60s" } })
  }),
  stall("artifacts whose patterns match in many ways", (target) => {
    const artifacts = [`${"*a".repeat(100)}*b`, "{1..2000000}", "{a,b}".repeat(25), "**/".repeat(60), "+(+(+(a)))b"]
    const command = `touch ${"a".repeat(200)}; mkdir -p ${"d/".repeat(60)}`
    const task = (pattern: string) => ({ command, artifacts: [pattern], timeout: "20s" })
    return runAndRead(target, "patterns", Object.fromEntries(artifacts.map((pattern, i) => [`t${i}`, task(pattern)])), "t0")
  }),
  stall("a wait for a path that matches in many ways", async (target) => {
    const wait = (path: string) => ({ executor: "wait", path, every: "1s", timeout: "3s" })
    const tasks = { a: wait(`/etc${"/**".repeat(50)}/none`), b: wait(`${"/proc/self/root".repeat(20)}/etc/*/*/none`) }
    await runAndRead(target, "paths", tasks)
  }),
  stall("requirements that name the whole disk", (target) =>
    runAndRead(target, "disk", {
      a: { command: "true", requirements: ["file:///", "/usr/lib"], timeout: "5s", start_timeout: "5s" },
    }),
  ),
  stall("an output nested a million levels deep", (target) =>
    runAndRead(target, "deep", {
      a: {
        command: `{ yes '[' | head -n 1000000 | tr -d '\\n'; yes ']' | head -n 1000000 | tr -d '\\n'; } > "$ORK_OUTPUT"`,
        timeout: "60s",
      },
    }),
  ),
]
