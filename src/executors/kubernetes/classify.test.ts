import { describe, expect, test } from "vitest"
import { Latest } from "./namespace-watch.ts"
import type { Condition, JobObject, PodObject } from "./shapes.ts"
import { standingOf } from "./classify.ts"

const meta = (resourceVersion: string, more = {}) => ({ name: "x", uid: "u", resourceVersion, ...more })
const latest = <T extends PodObject>(object: T | null): Latest<T> => {
  const one = new Latest<T>()
  if (object !== null) one.see(object)
  return one
}

describe("the latest of an object", () => {
  test("late and repeated news change nothing", () => {
    const one = latest<PodObject>({ metadata: meta("9"), status: { phase: "Succeeded" } })
    expect(one.see({ metadata: meta("9"), status: { phase: "Running" } })).toBe(false)
    expect(one.see({ metadata: meta("8"), status: { phase: "Running" } })).toBe(false)
    expect(one.object?.status?.phase).toBe("Succeeded")
    expect(one.see({ metadata: meta("10"), status: { phase: "Failed" } })).toBe(true)
  })

  test("once gone it stays gone, until there is another of its name", () => {
    const one = latest<PodObject>({ metadata: meta("9") })
    expect(one.remove({ metadata: meta("12") })).toBe(true)
    expect(one.see({ metadata: meta("13") })).toBe(false)
    expect(one.see({ metadata: meta("14", { uid: "other" }) })).toBe(true)
    expect(one.gone).toBe(false)
  })

  test("a list from before it was made says nothing about it", () => {
    const one = latest<PodObject>({ metadata: meta("9") })
    expect(one.list(new Set(), "8")).toBe(false)
    expect(one.list(new Set(["u"]), "10")).toBe(false)
    expect(one.list(new Set(), "10")).toBe(true)
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

test("an end that was seen before the pod was deleted counts, however late it is looked at", () => {
  const one = latest<PodObject>(pod(terminated(0)))
  one.see({ ...pod(terminated(0)), metadata: meta("2", deleting) })
  one.remove({ ...pod(terminated(0)), metadata: meta("3", deleting) })
  const gone = latest<JobObject>(job({ type: "Complete", status: "True" }))
  gone.remove(null)
  expect(standingOf(gone, one, 0)).toMatchObject({ phase: "ended", ending: { state: "success", certain: true } })
})

test.each<[string, JobObject | null, PodObject | null, object]>([
  ["a job without a pod", job(), null, { phase: "waiting", why: "the cluster has made no pod for its job" }],
  ["a pod that is being made", job(), pod(waiting("ContainerCreating", "")), { phase: "waiting" }],
  ["one that runs", job(), pod(running), { phase: "running" }],
  ["one that ended well", job(), pod(terminated(0)), { phase: "ended", ending: { state: "success", certain: true } }],
  [
    "one beside which another container still runs",
    job(),
    pod({ ...terminated(0), phase: "Running" }),
    { phase: "ended", ending: { state: "success" } },
  ],
  ["one that ended badly", job(), pod(terminated(3)), { phase: "ended", ending: { state: "failed", error: "exit code 3" } }],
  [
    "one whose program is missing",
    job(),
    pod(terminated(128, { reason: "StartError", message: 'exec: "/x": stat /x: no such file or directory: unknown' })),
    { ending: { error: "could not start: /x: not found in this image", exitCode: null } },
  ],
  [
    "one whose program is missing, in the words of crun",
    job(),
    pod(terminated(128, { reason: "StartError", message: "executable file `/x` not found: No such file or directory" })),
    { ending: { error: "could not start: /x: not found in this image" } },
  ],
  [
    "one that its node forgot",
    job(),
    pod(terminated(137, { reason: "ContainerStatusUnknown" })),
    { ending: { state: "lost" } },
  ],
  [
    "one that its node refused",
    job(),
    pod({ phase: "Failed", reason: "OutOfcpu", message: "Node didn't have enough resource" }),
    { phase: "ended", ending: { state: "lost" } },
  ],
  [
    "one on a node that shuts down",
    job(),
    pod({ phase: "Failed", reason: "Terminated", message: "imminent node shutdown" }),
    { ending: { state: "lost" } },
  ],
  [
    "one that is drained and still runs",
    job(),
    pod({ ...running, conditions: [disrupted] }, deleting),
    { phase: "leaving", ending: { state: "lost" } },
  ],
  [
    "one that was drained and has ended",
    job(),
    pod({ ...terminated(143), conditions: [disrupted] }, deleting),
    { phase: "ended", ending: { state: "lost" } },
  ],
  [
    "one whose time is over and that still runs",
    job(deadline),
    pod(running, deleting),
    { phase: "leaving", ending: { state: "timeout" } },
  ],
  ["one whose time was over", job(deadline), pod(terminated(137), deleting), { phase: "ended", ending: { state: "timeout" } }],
  ["one that somebody deletes", job(), pod(terminated(143), deleting), { phase: "leaving", ending: { state: "lost" } }],
  [
    "a job that failed without a pod",
    job({ type: "Failed", status: "True", message: "no" }),
    null,
    { phase: "leaving", ending: { state: "lost", error: "its job failed: no" } },
  ],
  [
    "a registry that says no",
    job(),
    pod(waiting("ErrImagePull", "denied")),
    { phase: "stuck", hopeless: false, error: "could not start: the image cannot be pulled: denied" },
  ],
  [
    "one that ended well because its node wanted it to go",
    job(),
    pod({ ...terminated(0), phase: "Failed", reason: "Evicted", conditions: [disrupted] }),
    { phase: "ended", ending: { state: "lost" } },
  ],
  [
    "one that ended well in a pod that another container failed",
    job(),
    pod({ ...terminated(0), phase: "Failed" }),
    { phase: "ended", ending: { state: "success" } },
  ],
  [
    "one that was done when somebody evicted it",
    job(),
    pod({ ...terminated(0), conditions: [disrupted] }),
    { phase: "ended", ending: { state: "success", certain: true } },
  ],
  [
    "one that somebody deleted, counted as failed by its job",
    job({ type: "FailureTarget", status: "True", reason: "BackoffLimitExceeded" }),
    pod(terminated(0), deleting),
    { phase: "ended", ending: { state: "lost" } },
  ],
  [
    "one whose init container failed",
    job(),
    pod({
      phase: "Failed",
      initContainerStatuses: [{ name: "mesh", state: { terminated: { exitCode: 2 } } }],
      containerStatuses: [{ name: "task", state: { waiting: { reason: "PodInitializing" } } }],
    }),
    { ending: { state: "failed", error: "could not start: its init container mesh ended: exit code 2" } },
  ],
  [
    "one that never began when its pod was deleted",
    job(),
    pod(terminated(137, { reason: "ContainerStatusUnknown", startedAt: null })),
    { ending: { state: "lost", exitCode: null } },
  ],
  ["a condition that does not hold", job({ ...deadline, status: "False" }), pod(running), { phase: "running" }],
])("%s", (_, one, other, expected) => {
  expect(standingOf(latest(one), latest(other), 0)).toMatchObject(expected)
})
