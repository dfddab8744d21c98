import { expect, test } from "vitest"
import { parseValue } from "../../../definition/parse.ts"
import { DEFAULT_POLICY, OPEN_POLICY, parsePolicy, type Policy } from "../../settings/policy.ts"
import { allowedFor, allowsRoot, hostViolation, policyProblems, policyViolation } from "./policy.ts"

const compiled = (task: object, more: object = {}) => {
  const parsed = parseValue({ name: "flow", tasks: { a: task }, ...more })
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return parsed.workflow
}

const problems = (task: object, policy: Policy = DEFAULT_POLICY, more: object = {}): string[] =>
  policyProblems(policy, compiled(task, more)).map(({ path, message }) => `${path}: ${message}`)

const docker = (options: object) => ({ executor: "docker", image: "busybox", command: "true", docker: options })
const kubernetes = (options: object) => ({ executor: "kubernetes", image: "busybox", command: "true", kubernetes: options })
const slurm = (options: string[]) => ({ executor: "slurm", command: "true", slurm: { options } })

test.each([
  ["a privileged container", docker({ privileged: true }), "privileged containers (policy.privileged"],
  ["a capability over the machine", docker({ cap_add: ["cap_sys_admin"] }), "the capability SYS_ADMIN"],
  ["the network of the machine", docker({ network: "host" }), "the network host"],
  ["the socket of Docker", docker({ mounts: ["/var/run/docker.sock:/s"] }), "the mount of /var/run/docker.sock (policy.mounts"],
  ["a host path", docker({ mounts: ["/etc:/etc:ro"] }), "the mount of /etc"],
  ["a path that leaves the folder of the run", docker({ mounts: ["./a/../../../etc:/etc"] }), "the mount of ../../etc"],
  ["a working folder of the machine", { ...docker({}), working_dir: "/" }, "the mount of / (policy.mounts"],
  ["a working folder outside of the run's", { ...docker({}), working_dir: "../x" }, "the mount of ../x"],
  ["a network namespace of the machine", docker({ network: "ns:/proc/1/ns/net" }), "the network ns:/proc/1/ns/net"],
  ["root", { command: "true", run_as: "root" }, "run_as root (policy.run_as"],
  ["a user that is given by a number", { command: "true", run_as: "0" }, "run_as 0 (policy.run_as"],
  ["a number in another notation", { command: "true", run_as: "+00" }, "run_as +00"],
  ["another user for a Slurm job", slurm(["--uid=0"]), "the option --uid=0 of sbatch (policy.run_as"],
  ["another group for a Slurm job", slurm(["--gi=adm"]), "the option --gi=adm of sbatch"],
  ["a privileged pod", kubernetes({ security: { privileged: true } }), "privileged containers"],
  ["a host path in a pod", kubernetes({ volumes: [{ name: "x", hostPath: { path: "/etc" } }] }), "the mount of /etc"],
  ["kube-system", kubernetes({ namespace: "kube-system" }), "the namespace kube-system (policy.namespaces"],
])("the default rejects %s", (_, task, message) => {
  expect(problems(task)).toEqual([expect.stringContaining(`tasks.a: the policy of this server does not allow ${message}`)])
  expect(problems(task, OPEN_POLICY)).toEqual([])
})

test("the default allows volumes, folders of the run, other namespaces and capabilities of the container", () => {
  expect(problems(docker({ mounts: ["cache:/c", "./in:/in", "in/../in:/x"], cap_add: ["CHOWN"], network: "none" }))).toEqual([])
  expect(problems(kubernetes({ namespace: "etl", volumes: [{ name: "x", emptyDir: {} }] }))).toEqual([])
})

test("a container without its working folder may have any", () => {
  expect(problems({ ...docker({ work: false }), working_dir: "/" })).toEqual([])
})

test("a number is a user only if it is listed, and root stands for all users of its id", () => {
  const policy = parsePolicy({ run_as: ["*", "!root", "1001"] })!
  const asUser = (user: string) => problems({ command: "true", run_as: user }, policy)
  expect(asUser("etl")).toEqual([])
  expect(asUser("1001")).toEqual([])
  expect(asUser("1002")).toHaveLength(1)
  expect(allowsRoot(policy.fields)).toBe(false)
  expect(allowsRoot(OPEN_POLICY.fields)).toBe(true)
})

test("hosts are compared without a dot at their end and in lower case", () => {
  const { fields } = parsePolicy({ hosts: ["*", "!Inner.example.com."] })!
  expect(hostViolation(fields, "http://inner.example.com./x")).toMatch(/the host inner\.example\.com \(policy\.hosts/)
  expect(hostViolation(fields, "http://INNER.example.com/x")).not.toBeNull()
  expect(hostViolation(fields, "http://example.com/x")).toBeNull()
})

test("a rule turns confinement off for the workflows that it names", () => {
  const policy = parsePolicy({ rules: [{ folders: ["/srv/admin"], sandbox: "off" }] })!
  expect(allowedFor(policy, { name: "a", tags: [], folder: "/srv/admin" }).sandbox).toBe("off")
  expect(allowedFor(policy, { name: "a", tags: [], folder: "/srv/other" }).sandbox).toBe("auto")
})

test("every field restricts what it names", () => {
  const policy = parsePolicy({
    executors: ["docker", "http", "process", "kubernetes"],
    images: ["registry.example.com/*", "!*:latest"],
    mounts: ["/srv/data/"],
    privileged: true,
    namespaces: ["etl-*"],
    service_accounts: ["runner"],
    run_as: ["etl"],
    hosts: ["*.example.com"],
  })!
  const image = (name: string) => problems({ executor: "docker", image: name, command: "true" }, policy)
  expect(image("registry.example.com/a:1")).toEqual([])
  expect(image("registry.example.com/a:latest")).toHaveLength(1)
  expect(image("busybox")).toEqual([expect.stringContaining("the image busybox (policy.images in ork.yaml)")])
  const own = { executor: "docker", image: "registry.example.com/a:1", command: "true" }
  expect(problems({ ...own, docker: { privileged: true, mounts: ["/srv/data/x:/x", "/srv/data:/y"] } }, policy)).toEqual([])
  expect(problems({ ...own, docker: { mounts: ["/srv/database:/x"] } }, policy)).toHaveLength(1)
  expect(problems({ executor: "node", file: "a.ts", function: "a" }, policy)).toEqual([
    expect.stringContaining("the executor node"),
  ])
  expect(problems({ command: "true", run_as: "root" }, policy)).toEqual([expect.stringContaining("run_as root")])
  expect(problems({ executor: "http", url: "https://api.example.com/x" }, policy)).toEqual([])
  expect(problems({ executor: "http", url: "https://example.org/api.example.com" }, policy)).toEqual([
    expect.stringContaining("the host example.org"),
  ])
  const waits = { ...policy, fields: { ...policy.fields, executors: ["*"] } }
  expect(problems({ executor: "wait", url: "https://example.org" }, waits)).toHaveLength(1)
  expect(problems({ executor: "wait", path: "s3://bucket/a?endpoint=https://example.org" }, waits)).toHaveLength(1)
  expect(problems({ executor: "wait", path: "s3://bucket/a?endpoint=https://s3.example.com" }, waits)).toEqual([])
  const pod = { executor: "kubernetes", image: "registry.example.com/a:1", command: "true" }
  expect(problems({ ...pod, kubernetes: { namespace: "etl-1", service_account: "runner" } }, policy)).toEqual([])
  expect(problems({ ...pod, kubernetes: { namespace: "other", service_account: "admin" } }, policy)).toHaveLength(2)
})

test("rules replace fields for the workflows, tags and folders that they name", () => {
  const policy = parsePolicy({
    run_as: [],
    rules: [
      { workflows: ["infra-*"], tags: ["trusted"], run_as: ["root"] },
      { folders: ["/srv/flows"], privileged: true },
    ],
  })!
  const asRoot = { command: "true", run_as: "root" }
  expect(problems(asRoot, policy, { name: "infra-1", tags: ["trusted"] })).toEqual([])
  expect(problems(asRoot, policy, { name: "infra-1" })).toHaveLength(1)
  expect(problems(asRoot, policy, { name: "other", tags: ["trusted"] })).toHaveLength(1)
  const workflow = compiled(docker({ privileged: true }))
  expect(policyProblems(policy, workflow)).toHaveLength(1)
  expect(policyProblems(policy, { ...workflow, folder: "/srv/flows" })).toEqual([])
})

test("values of expressions are checked when the task is dispatched", () => {
  const workflow = compiled(docker({ mounts: ["${{ params.path }}:/x"] }), { params: { path: "cache" } })
  expect(policyProblems(DEFAULT_POLICY, workflow)).toEqual([])
  const [node] = workflow.nodes
  const allowed = allowedFor(DEFAULT_POLICY, workflow)
  const rendered = (path: string) => ({ ...node!, fields: { docker: { mounts: [`${path}:/x`] } }, workingDir: null })
  expect(policyViolation(allowed, rendered("cache"))).toBeNull()
  expect(policyViolation(allowed, rendered("/etc"))).toMatch(/the mount of \/etc/)
  expect(policyViolation(allowed, { ...rendered("cache"), workingDir: "/etc" })).toMatch(/the mount of \/etc/)
})

test.each([
  [{ image: ["x"] }],
  [{ images: "x" }],
  [{ privileged: "yes" }],
  [{ sandbox: "none" }],
  [{ mounts: ["relative"] }],
  [{ rules: [{ images: ["x"] }] }],
  [{ rules: [{ workflows: ["x"], sandbox: "off" }] }],
  [{ rules: [{ tags: ["a"], unknown: [] }] }],
  ["no map"],
])("a policy that is not valid is rejected: %j", (value) => {
  expect(parsePolicy(value)).toBeNull()
})
