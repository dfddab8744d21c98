import { describe, expect, test } from "vitest"
import { classify } from "./classify.ts"
import { LatestObject } from "./namespace-watch.ts"
import type { Condition, JobObject, PodObject } from "./shapes.ts"

const meta = (resourceVersion: string, more = {}) => ({ name: "x", uid: "u", resourceVersion, ...more })
const latest = <T extends PodObject>(object: T | null): LatestObject<T> => {
  const one = new LatestObject<T>()
  if (object !== null) one.update(object)
  return one
}

describe("the latest version of an object", () => {
  test("older and repeated versions change nothing", () => {
    const one = latest<PodObject>({ metadata: meta("9"), status: { phase: "Succeeded" } })
    expect(one.update({ metadata: meta("9"), status: { phase: "Running" } })).toBe(false)
    expect(one.update({ metadata: meta("8"), status: { phase: "Running" } })).toBe(false)
    expect(one.object?.status?.phase).toBe("Succeeded")
    expect(one.update({ metadata: meta("10"), status: { phase: "Failed" } })).toBe(true)
  })

  test("a deleted object stays deleted until another one of its name appears", () => {
    const one = latest<PodObject>({ metadata: meta("9") })
    expect(one.remove({ metadata: meta("12") })).toBe(true)
    expect(one.update({ metadata: meta("13") })).toBe(false)
    expect(one.update({ metadata: meta("14", { uid: "other" }) })).toBe(true)
    expect(one.gone).toBe(false)
  })

  test("a list that is older than the object does not mean that it is gone", () => {
    const one = latest<PodObject>({ metadata: meta("9") })
    expect(one.compareWithList(new Set(), "8")).toBe(false)
    expect(one.compareWithList(new Set(["u"]), "10")).toBe(false)
    expect(one.compareWithList(new Set(), "10")).toBe(true)
    expect(one).toMatchObject({ gone: true, vanished: true })
  })
})

const terminated = (exitCode: number, more = {}): PodObject["status"] => ({
  phase: exitCode === 0 ? "Succeeded" : "Failed",
  containerStatuses: [{ name: "task", state: { terminated: { exitCode, ...more } } }],
})
const waiting = (reason: string, message: string): PodObject["status"] => ({
  phase: "Pending",
  containerStatuses: [{ name: "task", state: { waiting: { reason, message } } }],
})
const job = (...conditions: Condition[]): JobObject => ({ metadata: meta("1"), status: { conditions } })
const pod = (status: PodObject["status"], more = {}): PodObject => ({
  metadata: meta("1", more),
  ...(status !== undefined && { status }),
})
const deleting = { deletionTimestamp: "2026-01-01T00:00:00Z" }
const disrupted = {
  type: "DisruptionTarget",
  status: "True",
  reason: "DeletionByTaintManager",
  message: "Taint manager: deleting",
}
const deadline = { type: "FailureTarget", status: "True", reason: "DeadlineExceeded" }
const running: PodObject["status"] = { phase: "Running", containerStatuses: [{ name: "task", state: { running: {} } }] }

test("a success before the deletion of the pod counts, even if it is classified after it", () => {
  const one = latest<PodObject>(pod(terminated(0)))
  one.update({ ...pod(terminated(0)), metadata: meta("2", deleting) })
  one.remove({ ...pod(terminated(0)), metadata: meta("3", deleting) })
  const gone = latest<JobObject>(job({ type: "Complete", status: "True" }))
  gone.remove(null)
  expect(classify(gone, one, 0)).toMatchObject({ phase: "ended", outcome: { state: "success", certain: true } })
})

test.each<[string, JobObject | null, PodObject | null, object]>([
  ["a job without a pod", job(), null, { phase: "waiting", reason: "the cluster has created no pod for its job" }],
  ["a pod that is created", job(), pod(waiting("ContainerCreating", "")), { phase: "waiting" }],
  ["a pod that runs", job(), pod(running), { phase: "running" }],
  ["a pod that succeeded", job(), pod(terminated(0)), { phase: "ended", outcome: { state: "success", certain: true } }],
  [
    "a pod that succeeded while another of its containers still runs",
    job(),
    pod({ ...terminated(0), phase: "Running" }),
    { phase: "ended", outcome: { state: "success" } },
  ],
  ["a pod that failed", job(), pod(terminated(3)), { phase: "ended", outcome: { state: "failed", error: "exit code 3" } }],
  [
    "a pod whose program is missing, as runc reports it",
    job(),
    pod(terminated(128, { reason: "StartError", message: 'exec: "/x": stat /x: no such file or directory: unknown' })),
    { outcome: { error: "could not start: /x: not found in this image", exitCode: null } },
  ],
  [
    "a pod whose program is missing, as crun reports it",
    job(),
    pod(terminated(128, { reason: "StartError", message: "executable file `/x` not found: No such file or directory" })),
    { outcome: { error: "could not start: /x: not found in this image" } },
  ],
  [
    "a pod that its node forgot",
    job(),
    pod(terminated(137, { reason: "ContainerStatusUnknown" })),
    { outcome: { state: "lost" } },
  ],
  [
    "a pod that its node rejected",
    job(),
    pod({ phase: "Failed", reason: "OutOfcpu", message: "Node didn't have enough resource" }),
    { phase: "ended", outcome: { state: "lost" } },
  ],
  [
    "a pod on a node that shuts down",
    job(),
    pod({ phase: "Failed", reason: "Terminated", message: "imminent node shutdown" }),
    { outcome: { state: "lost" } },
  ],
  [
    "a pod that is drained and still runs",
    job(),
    pod({ ...running, conditions: [disrupted] }, deleting),
    { phase: "terminating", outcome: { state: "lost" } },
  ],
  [
    "a pod that was drained and has ended",
    job(),
    pod({ ...terminated(143), conditions: [disrupted] }, deleting),
    { phase: "ended", outcome: { state: "lost" } },
  ],
  [
    "a pod that still runs after its deadline",
    job(deadline),
    pod(running, deleting),
    { phase: "terminating", outcome: { state: "timeout" } },
  ],
  [
    "a pod that ended at its deadline",
    job(deadline),
    pod(terminated(137), deleting),
    { phase: "ended", outcome: { state: "timeout" } },
  ],
  ["a pod that somebody deletes", job(), pod(terminated(143), deleting), { phase: "terminating", outcome: { state: "lost" } }],
  [
    "a job that failed without a pod",
    job({ type: "Failed", status: "True", message: "no" }),
    null,
    { phase: "terminating", outcome: { state: "lost", error: "its job failed: no" } },
  ],
  [
    "a pod whose image the registry denies",
    job(),
    pod(waiting("ErrImagePull", "denied")),
    { phase: "stuck", permanent: false, error: "could not start: the image cannot be pulled: denied" },
  ],
  [
    "a pod that exited with 0 because it was evicted",
    job(),
    pod({ ...terminated(0), phase: "Failed", reason: "Evicted", conditions: [disrupted] }),
    { phase: "ended", outcome: { state: "lost" } },
  ],
  [
    "a pod whose task succeeded and whose other container failed",
    job(),
    pod({ ...terminated(0), phase: "Failed" }),
    { phase: "ended", outcome: { state: "success" } },
  ],
  [
    "a pod that had succeeded when it was evicted",
    job(),
    pod({ ...terminated(0), conditions: [disrupted] }),
    { phase: "ended", outcome: { state: "success", certain: true } },
  ],
  [
    "a pod that somebody deleted and its job counts as failed",
    job({ type: "FailureTarget", status: "True", reason: "BackoffLimitExceeded" }),
    pod(terminated(0), deleting),
    { phase: "ended", outcome: { state: "lost" } },
  ],
  [
    "a pod whose init container failed",
    job(),
    pod({
      phase: "Failed",
      initContainerStatuses: [{ name: "mesh", state: { terminated: { exitCode: 2 } } }],
      containerStatuses: [{ name: "task", state: { waiting: { reason: "PodInitializing" } } }],
    }),
    { outcome: { state: "failed", error: "could not start: its init container mesh ended: exit code 2" } },
  ],
  [
    "a pod that was deleted before its container started",
    job(),
    pod(terminated(137, { reason: "ContainerStatusUnknown", startedAt: null })),
    { outcome: { state: "lost", exitCode: null } },
  ],
  ["a job with a condition that is false", job({ ...deadline, status: "False" }), pod(running), { phase: "running" }],
])("%s is classified as such", (_, one, other, expected) => {
  expect(classify(latest(one), latest(other), 0)).toMatchObject(expected)
})
