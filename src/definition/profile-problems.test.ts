import { expect, it } from "vitest"
import { parseDefinition } from "./parse.ts"
import { profileProblems } from "./profile-problems.ts"
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

it("a profile sets where a task runs", () => {
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

it("fields of the task win over the profile; maps are merged name by name", () => {
  const node = nodeOf(`
name: w
tasks:
  t: { worker: gpu, command: train, queue: mine, labels: [big], resources: { cpu: 1 }, kubernetes: { namespace: other } }`)
  expect(node).toMatchObject({ queue: "mine", labels: ["big"], resources: { cpu: 1, memoryBytes: 8 * 2 ** 30 } })
  expect(node.fields["kubernetes"]).toEqual({ lit: { node_selector: { pool: "gpu" }, namespace: "other" } })
})

it("fields of the profile that the task's executor does not accept are ignored", () => {
  const node = nodeOf("name: w\ntasks: { t: { worker: gpu, executor: process, command: x } }")
  expect(node).toMatchObject({ executor: "process", queue: "heavy" })
  expect([node.image, node.fields]).toEqual([undefined, {}])
})

it("a profile that the task names wins over the defaults; one that the defaults name does not", () => {
  const text = (defaults: string, own: string) => `name: w\ndefaults: { ${defaults} }\ntasks: { t: { command: x, ${own} } }`
  expect(nodeOf(text("queue: slow", "worker: small")).queue).toBe("light")
  expect(nodeOf(text("queue: slow, worker: small", "retries: 1")).queue).toBe("slow")
  expect(nodeOf(text("worker: small", "retries: 1")).queue).toBe("light")
  expect(nodeOf(text("worker: small", "worker: gpu")).queue).toBe("heavy")
})

it("a changed profile changes the version", () => {
  const text = "name: w\ntasks: { t: { worker: small, command: x } }"
  const hash = (queue: string) => {
    const parsed = parseDefinition(text, { profiles: { small: { queue } } })
    return parsed.ok ? parsed.hash : ""
  }
  expect(hash("a")).not.toBe(hash("b"))
  expect(hash("a")).toBe(hash("a"))
})

it("an unknown profile is a problem with its position and a suggestion", () => {
  expect(parseDefinition("name: w\ntasks:\n  t: { worker: gpo, command: x }", { profiles: PROFILES })).toEqual({
    ok: false,
    problems: [
      {
        path: "tasks.t.worker",
        message: 'there is no worker profile "gpo"; the profiles are gpu, small (worker_profiles in ork.yaml)',
        suggestion: "gpu",
        line: 3,
        column: 16,
      },
    ],
  })
  const none = parseDefinition("name: w\ntasks: { t: { worker: toString, command: x } }", { profiles: {} })
  expect(none).toMatchObject({ problems: [{ message: expect.stringContaining("none is configured") as string }] })
})

it("fields that an unknown profile may set are not reported as missing", () => {
  expect(parseDefinition("name: w\ntasks: { t: { worker: gpu, executor: docker, command: x } }").ok).toBe(true)
  expect(parseDefinition("name: w\ntasks: { t: { executor: docker, command: x } }").ok).toBe(false)
})

it("profiles are maps of known fields, from a file or as JSON", () => {
  expect(parseWorkerProfiles(PROFILES)).toEqual(PROFILES)
  expect(parseWorkerProfiles('{"a":{"queue":"x"}}')).toEqual({ a: { queue: "x" } })
  for (const bad of [[], "x", { a: 1 }, { a: { command: "x" } }, { "a b": {} }]) expect(parseWorkerProfiles(bad)).toBeNull()
})

it("fields of profiles are checked like fields of tasks", () => {
  expect(profileProblems(PROFILES)).toEqual([])
  const bad = { a: { queue: "no queue!", labels: "gpu" }, b: { kubernetes: { namespaces: "x" } } } as unknown as WorkerProfiles
  expect(profileProblems(bad)).toEqual([
    expect.stringMatching(/^ork\.yaml: .*worker_profiles\.a\.(queue|labels)/),
    expect.stringMatching(/^ork\.yaml: .*worker_profiles\.a\.(queue|labels)/),
    expect.stringMatching(/^ork\.yaml: .*worker_profiles\.b\.kubernetes\.namespaces.*unknown field/),
  ])
})
