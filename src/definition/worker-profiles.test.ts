import { expect, it } from "vitest"
import { parseDefinition } from "./parse.ts"
import { profileProblems } from "./worker-profiles.ts"
import { parseWorkerProfiles, type WorkerProfiles } from "../core/settings/worker-profiles.ts"

const PROFILES: WorkerProfiles = {
  gpu: {
    executor: "kubernetes",
    image: "ml:1",
    queue: "heavy",
    labels: ["gpu"],
    resources: { cpu: 4, memory: "8Gi" },
    env: { CUDA: "1" },
    kubernetes: { node_selector: { pool: "gpu" }, namespace: "ml" },
  },
  small: { queue: "light" },
}

const nodeOf = (text: string, profiles: WorkerProfiles = PROFILES) => {
  const parsed = parseDefinition(text, { profiles })
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return parsed.workflow.nodes[0]!
}

it("a profile gives a task where it runs", () => {
  expect(nodeOf("name: w\ntasks: { t: { worker: gpu, command: train } }")).toMatchObject({
    executor: "kubernetes",
    image: "ml:1",
    queue: "heavy",
    labels: ["gpu"],
    resources: { cpu: 4, memoryBytes: 8 * 2 ** 30 },
    env: { CUDA: { value: { lit: "1" } } },
    worker: "gpu",
  })
})

it("the task's own fields win, maps name by name", () => {
  const node = nodeOf(`
name: w
tasks:
  t: { worker: gpu, command: train, queue: mine, labels: [big], resources: { cpu: 1 }, kubernetes: { namespace: other } }`)
  expect(node).toMatchObject({ queue: "mine", labels: ["big"], resources: { cpu: 1, memoryBytes: 8 * 2 ** 30 } })
  expect(node.fields["kubernetes"]).toEqual({ lit: { node_selector: { pool: "gpu" }, namespace: "other" } })
})

it("what does not suit the task's own executor is left out", () => {
  const node = nodeOf("name: w\ntasks: { t: { worker: gpu, executor: process, command: x } }")
  expect(node).toMatchObject({ executor: "process", queue: "heavy" })
  expect([node.image, node.fields]).toEqual([undefined, {}])
})

it("a profile wins over the defaults, unless they name it themselves", () => {
  const text = (defaults: string, own: string) => `name: w\ndefaults: { ${defaults} }\ntasks: { t: { command: x, ${own} } }`
  expect(nodeOf(text("queue: slow", "worker: small")).queue).toBe("light")
  expect(nodeOf(text("queue: slow, worker: small", "retries: 1")).queue).toBe("slow")
  expect(nodeOf(text("worker: small", "retries: 1")).queue).toBe("light")
  expect(nodeOf(text("worker: small", "worker: gpu")).queue).toBe("heavy")
})

it("another profile makes another version", () => {
  const text = "name: w\ntasks: { t: { worker: small, command: x } }"
  const hash = (queue: string) => {
    const parsed = parseDefinition(text, { profiles: { small: { queue } } })
    return parsed.ok ? parsed.hash : ""
  }
  expect(hash("a")).not.toBe(hash("b"))
  expect(hash("a")).toBe(hash("a"))
})

it("a profile that is not there is a problem with its place, and the nearest one", () => {
  expect(parseDefinition("name: w\ntasks:\n  t: { worker: gpo, command: x }", { profiles: PROFILES })).toEqual({
    ok: false,
    problems: [
      {
        path: "tasks.t.worker",
        message: 'there is no worker profile "gpo"; there are gpu, small (worker_profiles in ork.yaml)',
        suggestion: "gpu",
        line: 3,
        column: 16,
      },
    ],
  })
  const none = parseDefinition("name: w\ntasks: { t: { worker: toString, command: x } }", { profiles: {} })
  expect(none).toMatchObject({ problems: [{ message: expect.stringContaining("none is set") as string }] })
})

it("where profiles are not known, what one might give is not missed", () => {
  expect(parseDefinition("name: w\ntasks: { t: { worker: gpu, executor: docker, command: x } }").ok).toBe(true)
  expect(parseDefinition("name: w\ntasks: { t: { executor: docker, command: x } }").ok).toBe(false)
})

it("profiles are a map of maps with known fields, from a file or as JSON", () => {
  expect(parseWorkerProfiles(PROFILES)).toEqual(PROFILES)
  expect(parseWorkerProfiles('{"a":{"queue":"x"}}')).toEqual({ a: { queue: "x" } })
  for (const bad of [[], "x", { a: 1 }, { a: { command: "x" } }, { "a b": {} }]) expect(parseWorkerProfiles(bad)).toBeNull()
})

it("fields of profiles are judged as those of tasks are", () => {
  expect(profileProblems(PROFILES)).toEqual([])
  const bad = { a: { queue: "no queue!", labels: "gpu" }, b: { kubernetes: { namespaces: "x" } } } as unknown as WorkerProfiles
  expect(profileProblems(bad)).toEqual([
    expect.stringMatching(/^ork\.yaml: .*worker_profiles\.a\.(queue|labels)/),
    expect.stringMatching(/^ork\.yaml: .*worker_profiles\.a\.(queue|labels)/),
    expect.stringMatching(/^ork\.yaml: .*worker_profiles\.b\.kubernetes\.namespaces.*unknown field/),
  ])
})
