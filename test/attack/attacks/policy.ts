// Workflows and jobs that ask for what the administrator's policy forbids by default.

import type { Attack } from "../attack.ts"
import type { Target } from "../target.ts"

const docker = (options: object) => ({ executor: "docker", image: "busybox", command: "true", docker: options })
const kubernetes = (options: object) => ({ executor: "kubernetes", image: "busybox", command: "true", kubernetes: options })
const hostPath = (path: string) => ({ volumes: [{ name: "v", hostPath: { path } }] })

/** Each is valid without the policy. */
const FORBIDDEN: { [name: string]: object } = {
  "a privileged container": docker({ privileged: true }),
  "the socket of Docker": docker({ mounts: ["/var/run/docker.sock:/var/run/docker.sock"] }),
  "the socket of Docker in another spelling": docker({ mounts: ["/var//run/./x/../docker.sock:/s"] }),
  "a host path": docker({ mounts: ["/etc:/host:ro"] }),
  "a path out of the folder of the run": docker({ mounts: ["a/../../../..:/host"] }),
  "the capability SYS_ADMIN": docker({ cap_add: ["cap_sys_admin"] }),
  "all capabilities": docker({ cap_add: ["ALL"] }),
  "the network of the machine": docker({ network: "host" }),
  "the network of another container": docker({ network: "container:ork" }),
  "the namespace kube-system": kubernetes({ namespace: "kube-system" }),
  "a privileged pod": kubernetes({ security: { privileged: true } }),
  "a host path in a pod": kubernetes(hostPath("/")),
  "the capability SYS_PTRACE in a pod": kubernetes({ security: { capabilities: ["SYS_PTRACE"] } }),
}

const POLICY = /the policy of this server does not allow/

/** Returns null if every way to submit the task is rejected by the policy. */
const submit = async (target: Target, task: object): Promise<string | null> => {
  const replies = {
    workflow: await target.call("POST", "/workflows", { body: { name: "asking", tasks: { a: task } } }),
    group: await target.call("POST", "/workflows", { body: { name: "asking", tasks: { g: { tasks: { a: task } } } } }),
    hook: await target.call("POST", "/workflows", {
      body: { name: "asking", tasks: { a: { command: "true" } }, on_failure: [{ ...task }] },
    }),
    "hook of a task": await target.call("POST", "/workflows", {
      body: { name: "asking", tasks: { a: { command: "true", on_failure: [{ ...task }] } } },
    }),
    job: await target.call("POST", "/jobs", { body: { name: "asking", queue: "asking", task } }),
  }
  for (const [how, { status, text }] of Object.entries(replies)) {
    if (status < 300) return `the server accepted a ${how}`
    if (!POLICY.test(text)) throw new Error(`a ${how} was rejected for another reason: ${text}`)
  }
  return null
}

export const policyAttacks: Attack[] = Object.entries(FORBIDDEN).map(([name, task], i) => ({
  name: `policy: a task asks for ${name}`,
  quick: i % 3 === 0,
  run: (target) => submit(target, task),
}))
