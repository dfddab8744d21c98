import { expect, test } from "vitest"
import type { DockerDefinition } from "../../core/model/definition.ts"
import { assignment, type Overrides } from "../conformance/fixture.ts"
import type { Assignment } from "../executor.ts"
import { engineAddress } from "./address.ts"
import { createRequest } from "./container.ts"
import { mountsOf } from "./mounts.ts"
import { withTag } from "./image.ts"
import { registryOf } from "./registry-auth.ts"
import { describeExit } from "./messages.ts"

const request = async (command: Assignment["command"], docker: DockerDefinition = {}, { node, ...rest }: Overrides = {}) => {
  const work = assignment("/runs/1", command, {
    attemptId: "a1",
    fields: { docker },
    ...rest,
    node: { image: "alpine", ...node },
  })
  return createRequest(work, await mountsOf(work, "/data/docker/a1"), { owner: "1-2-3", data: "d" })
}

test("a container has few rights, and labels that identify it", async () => {
  const { HostConfig, Labels, ...rest } = await request({ argv: ["ls", "-l"] })
  expect(rest).toMatchObject({ Image: "alpine", Cmd: ["ls", "-l"], WorkingDir: "/work", Tty: false })
  expect(rest).not.toHaveProperty("Entrypoint")
  expect(Labels).toMatchObject({ "ork.owner": "1-2-3", "ork.attempt": "a1", "ork.run": "run-1", "ork.task": "task" })
  expect(HostConfig).toMatchObject({
    Privileged: false,
    CapDrop: ["ALL"],
    SecurityOpt: ["no-new-privileges"],
    PidsLimit: 4096,
    Init: true,
    Mounts: [
      { Type: "bind", Source: "/data/docker/a1", Target: "/ork", ReadOnly: false },
      { Type: "bind", Source: "/runs/1", Target: "/work", ReadOnly: false },
    ],
  })
})

test("a script runs in sh whatever the image's entrypoint is, unless the task has another one", async () => {
  expect(await request({ shell: "a | b" })).toMatchObject({ Entrypoint: ["/bin/sh", "-e", "-c"], Cmd: ["a | b"] })
  expect(await request({ shell: "x" }, { entrypoint: ["bash", "-c"] })).toMatchObject({
    Entrypoint: ["bash", "-c"],
    Cmd: ["x"],
  })
  expect(await request(null)).not.toHaveProperty("Cmd")
})

test("options become fields of the create request", async () => {
  const docker: DockerDefinition = {
    mounts: ["/etc/hosts:/h:ro", "./in:/in", "cache:/cache"],
    work: false,
    workdir: "/srv",
    user: "1000",
    network: "none",
    hosts: { db: "10.0.0.5" },
    tmpfs: ["/tmp"],
    cap_add: ["NET_RAW"],
    read_only: true,
    pids: 10,
    shm_size: "64Mi",
    gpus: "all",
  }
  const created = await request({ argv: ["x"] }, docker, {
    upstreamDir: "/up",
    node: { resources: { cpu: 1.5, memoryBytes: 1000 } },
  })
  expect(created).toMatchObject({ WorkingDir: "/srv", User: "1000" })
  expect(created.Env).toContain("ORK_UPSTREAM=/ork-upstream")
  expect(created.HostConfig).toMatchObject({
    NetworkMode: "none",
    ExtraHosts: ["db:10.0.0.5"],
    Tmpfs: { "/tmp": "" },
    CapAdd: ["NET_RAW"],
    ReadonlyRootfs: true,
    PidsLimit: 10,
    ShmSize: 64 << 20,
    NanoCpus: 1_500_000_000,
    Memory: 1000,
    MemorySwap: 1000,
    DeviceRequests: [{ Count: -1, Capabilities: [["gpu"]] }],
  })
  expect(created.HostConfig.Mounts.slice(1)).toEqual([
    { Type: "bind", Source: "/up", Target: "/ork-upstream", ReadOnly: true },
    { Type: "bind", Source: "/etc/hosts", Target: "/h", ReadOnly: true },
    { Type: "bind", Source: "/runs/1/in", Target: "/in", ReadOnly: false },
    { Type: "volume", Source: "cache", Target: "/cache", ReadOnly: false },
  ])
  expect((await request(null, { privileged: true })).HostConfig).toMatchObject({ Privileged: true })
})

test("DOCKER_HOST is the engine's address; otherwise it is the first default socket that exists", () => {
  const address = (env: { [name: string]: string }, existing: string[] = []) =>
    engineAddress(env, (path) => existing.includes(path))
  expect(address({ DOCKER_HOST: "unix:///x/y.sock" })).toMatchObject({ socketPath: "/x/y.sock" })
  expect(address({ DOCKER_HOST: "tcp://10.0.0.1:2000" })).toMatchObject({ host: "10.0.0.1", port: 2000 })
  expect(address({ DOCKER_HOST: "tcp://[::1]" })).toMatchObject({ host: "::1", port: 2375 })
  expect(address({})).toMatchObject({ socketPath: "/var/run/docker.sock" })
  expect(address({ XDG_RUNTIME_DIR: "/run/user/7" }, ["/run/user/7/podman/podman.sock"])).toMatchObject({
    socketPath: "/run/user/7/podman/podman.sock",
  })
  expect(() => address({ DOCKER_HOST: "ssh://me@there" })).toThrow("DOCKER_HOST ssh://me@there is invalid")
  expect(() => address({ DOCKER_HOST: "https://x", DOCKER_CERT_PATH: "/none" })).toThrow("set DOCKER_CERT_PATH")
})

test("an image without a tag gets `latest`, and its registry is found", () => {
  expect(["a", "a:1", "h:5/a", "h:5/a:1", "a@sha256:x"].map(withTag)).toEqual([
    "a:latest",
    "a:1",
    "h:5/a:latest",
    "h:5/a:1",
    "a@sha256:x",
  ])
  const hub = "https://index.docker.io/v1/"
  expect(["a", "me/a", "ghcr.io/me/a", "localhost/a", "h:5/a"].map(registryOf)).toEqual([
    hub,
    hub,
    "ghcr.io",
    "localhost",
    "h:5",
  ])
})

test("an exit is described by code, signal and reason", () => {
  const state = (ExitCode: number, OOMKilled = false, Error = "") => ({
    Status: "exited",
    ExitCode,
    OOMKilled,
    Error,
    FinishedAt: "",
  })
  expect(describeExit(state(0), 0)).toBeNull()
  expect(describeExit(state(3), 0)).toBe("exit code 3")
  expect(describeExit(state(143), 0)).toBe("exit code 143 (SIGTERM)")
  expect(describeExit(state(137, true), 1 << 20)).toBe(
    "exit code 137 (SIGKILL): a process was killed, because it used more than 1 MiB of memory",
  )
  expect(describeExit(state(128, false, "no space"), 0)).toBe("exit code 128: no space")
})

test("a function is called by `ork exec` in the working folder", async () => {
  const node = { file: "tasks/load.py", function: "load" }
  expect(await request(null, {}, { node })).toMatchObject({
    Entrypoint: ["ork"],
    Cmd: ["exec", "--file", "tasks/load.py", "--function", "load"],
    WorkingDir: "/work",
  })
})
