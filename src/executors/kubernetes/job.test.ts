import { expect, test } from "vitest"
import { assignment, type Overrides } from "../conformance/fixture.ts"
import { labelValue, requestOf, secretOf } from "./job.ts"
import { expand } from "./testing/pod-plan.ts"
import { restrictedProblems } from "./testing/pod-security.ts"
import { problemsOf } from "./testing/rules.ts"

const request = ({ node, ...more }: Overrides = {}, exec: { [name: string]: string } | null = null) => {
  const work = assignment(
    "/",
    { shell: "echo $$ $(date)" },
    { attemptId: "0192-a", ...more, node: { image: "busybox", ...node } },
  )
  const built = requestOf({ assignment: work, ttlMs: 60_000, exec })
  expect(problemsOf("jobs", built.job as object)).toEqual({ decode: [], validate: [] })
  const pod = built.job.spec!.template
  return { ...built, work, pod: pod.spec!, annotations: pod.metadata!.annotations!, container: pod.spec!.containers[0]! }
}

test("a pod has few rights by default", () => {
  const { pod, container } = request()
  expect(pod.securityContext).toEqual({
    runAsNonRoot: true,
    runAsUser: 65_534,
    runAsGroup: 65_534,
    seccompProfile: { type: "RuntimeDefault" },
  })
  expect(container.securityContext).toEqual({ allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } })
  expect(pod).toMatchObject({ automountServiceAccountToken: false, restartPolicy: "Never", enableServiceLinks: false })
})

test('a pod meets the Pod Security Standard "restricted", also with secrets and large inputs', () => {
  const given: Overrides[] = [
    {},
    { input: { text: "x".repeat(20_000) } },
    { env: { TOKEN: "hunter2" }, secrets: ["hunter2"] },
    { fields: { kubernetes: { security: { run_as_user: "image", capabilities: ["NET_BIND_SERVICE"] } } } },
  ]
  for (const one of given) expect(restrictedProblems(request(one).pod)).toEqual([])
  expect(restrictedProblems(request({}, { TASK_SPEC_PATH: "spec.json" }).pod)).toEqual([])
})

test.each([
  [{ run_as_non_root: false }, "runAsNonRoot"],
  [{ run_as_user: 0 }, "runAsUser=0"],
  [{ allow_privilege_escalation: true }, "allowPrivilegeEscalation"],
  [{ privileged: true }, "privileged"],
  [{ capabilities: ["SYS_ADMIN"] }, "capabilities"],
  [{ seccomp: "Unconfined" }, "seccompProfile"],
])("%o violates the standard", (security, problem) => {
  expect(restrictedProblems(request({ fields: { kubernetes: { security } } }).pod).join()).toContain(problem)
})

test("a volume of the host violates the standard", () => {
  const volumes = [{ name: "host", hostPath: { path: "/" } }]
  expect(restrictedProblems(request({ fields: { kubernetes: { volumes } } }).pod).join()).toContain("hostPath")
})

test("a deleted pod has at least a second, and a finished Job stays at least a minute, so that outcome and log can be read", () => {
  const { pod, job } = request({ graceMs: 0, fields: { kubernetes: { ttl: 0 } } })
  expect(pod.terminationGracePeriodSeconds).toBe(1)
  expect(job.spec!.ttlSecondsAfterFinished).toBe(60)
})

test("the longest names in Ork become valid names and labels", () => {
  const attemptId = "0192f0c1-7f3a-7b2e-9c4d-0123456789ab"
  const { job } = request({ attemptId, workflow: `w${".".repeat(127)}`, task: `${"group.".repeat(8)}${"t".repeat(64)}` })
  expect(job.metadata?.name).toBe(`ork-${attemptId}`)
})

test("options can grant each of the rights", () => {
  const security = {
    run_as_user: "image",
    fs_group: 1000,
    read_only_root: true,
    capabilities: ["NET_BIND_SERVICE"],
    seccomp: "Unconfined",
  }
  const { pod, container } = request({ fields: { kubernetes: { security, automount_token: true, service_account: "robot" } } })
  expect(pod.securityContext).toEqual({ runAsNonRoot: true, fsGroup: 1000, seccompProfile: { type: "Unconfined" } })
  expect(container.securityContext).toMatchObject({
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"], add: ["NET_BIND_SERVICE"] },
  })
  expect(pod).toMatchObject({ automountServiceAccountToken: true, serviceAccountName: "robot" })
  const root = request({ fields: { kubernetes: { security: { run_as_non_root: false, privileged: true } } } })
  expect(root.pod.securityContext).toEqual({ runAsNonRoot: false, seccompProfile: { type: "RuntimeDefault" } })
  expect(root.container.securityContext).toEqual({ allowPrivilegeEscalation: true, privileged: true })
})

test("every option becomes a field of the Job, which is valid by the published types", () => {
  const kubernetes = {
    namespace: "work",
    node_selector: { disk: "ssd" },
    tolerations: [{ key: "gpu", operator: "Exists", effect: "NoSchedule" }],
    affinity: { nodeAffinity: {} },
    priority_class: "high",
    runtime_class: "gvisor",
    image_pull_secrets: ["registry"],
    image_pull_policy: "Always",
    labels: { team: "data" },
    annotations: { "example.com/a": "b" },
    volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }],
    volume_mounts: [{ name: "data", mountPath: "/data", readOnly: true }],
    env_from: [{ secretRef: { name: "shared" } }],
    limits: { "nvidia.com/gpu": 1 },
    requests: { cpu: "100m" },
    workdir: "/data",
    ttl: "5m",
  }
  const resources = { cpu: 0.5, memoryBytes: 2 ** 20 }
  const { job, pod, container } = request({
    fields: { kubernetes },
    node: { resources, timeoutMs: 60_000, startTimeoutMs: 30_000 },
  })
  expect(pod).toMatchObject({
    nodeSelector: { disk: "ssd" },
    priorityClassName: "high",
    runtimeClassName: "gvisor",
    imagePullSecrets: [{ name: "registry" }],
    terminationGracePeriodSeconds: 10,
  })
  expect(container.resources).toEqual({
    requests: { cpu: "100m", memory: "1048576" },
    limits: { cpu: "500m", memory: "1048576", "nvidia.com/gpu": "1" },
  })
  expect(container).toMatchObject({
    imagePullPolicy: "Always",
    workingDir: "/data",
    envFrom: [{ secretRef: { name: "shared" } }],
  })
  expect(job.metadata).toMatchObject({ name: "ork-0192-a", labels: { team: "data", "app.kubernetes.io/managed-by": "ork" } })
  // Timeout, start timeout, grace period, and a minute.
  expect(job.spec).toMatchObject({ backoffLimit: 0, ttlSecondsAfterFinished: 300, activeDeadlineSeconds: 160 })
})

test("dollar signs in a command are escaped, so that it arrives unchanged", () => {
  const { container } = request()
  expect(container.command).toEqual(["/bin/sh", "-e", "-c"])
  expect(container.args?.map((text) => expand(text, {}))).toEqual(["echo $$ $(date)"])
  const list = request({ command: { argv: ["a", "$(HOME)"] } }).container
  expect(list.command).toBeUndefined()
  expect(list.args?.map((text) => expand(text, { HOME: "no" }))).toEqual(["a", "$(HOME)"])
})

test("a small input is an annotation; a large or secret one is in a Secret, together with secret variables", () => {
  expect(request().annotations).toEqual({ "ork.dev/input": '{"greeting":"hello"}' })
  expect(request().secret).toBeNull()
  const large = request({ input: { text: "x".repeat(20_000) } })
  expect(Object.keys(large.secret!)).toEqual(["input.json"])
  expect(large.annotations).toEqual({})
  const hidden = request({ env: { TOKEN: 'a"b', PLAIN: "1" }, input: { token: 'a"b' }, secrets: ['a"b'] })
  expect(Object.keys(hidden.secret!).toSorted()).toEqual(["TOKEN", "input.json"])
  expect(hidden.annotations).toEqual({})
  const secret = secretOf(hidden.work, hidden.secret!, "uid-1")
  expect(problemsOf("secrets", secret as object)).toEqual({ decode: [], validate: [] })
})

test("ork exec gets the address of its spec, and secrets by reference", () => {
  const { container, pod, secret } = request({}, { TASK_SPEC_PATH: "runs/1/spec.json", ORK_EXEC_SECRET_TOKEN: "hunter2" })
  expect(container.command).toEqual(["ork", "exec"])
  expect(container.env).toEqual([
    { name: "TASK_SPEC_PATH", value: "runs/1/spec.json" },
    { name: "ORK_EXEC_SECRET_TOKEN", valueFrom: { secretKeyRef: { name: "ork-0192-a", key: "ORK_EXEC_SECRET_TOKEN" } } },
  ])
  expect(secret).toEqual({ ORK_EXEC_SECRET_TOKEN: "hunter2", ready: "" })
  expect(pod.volumes).toHaveLength(1)
})

test.each([
  ["a task/with spaces", "a-task-with-spaces"],
  ["-.x._", "x"],
  ["ü", ""],
  ["a".repeat(80), "a".repeat(63)],
  [`${"a".repeat(62)}-b`, "a".repeat(62)],
])("%s becomes a valid label value", (text, value) => {
  expect(labelValue(text)).toBe(value)
})
