import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test } from "vitest"
import type { Clock } from "../core/model/ports.ts"
import { FakeEngine } from "./docker/testing/fake-engine.ts"
import { runProbes, type ProbeOptions } from "./probes.ts"

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0)) await step()
})

/** A clock on which the time limit never passes. */
const withoutLimit: Clock = { now: () => 0, monotonic: () => 0, after: () => () => {} }
/** A clock on which the time limit passes at once. */
const immediate: Clock = {
  now: () => 0,
  monotonic: () => 0,
  after: (_ms, fn) => {
    const timer = setImmediate(fn)
    return () => clearImmediate(timer)
  },
}

/** Runs the probes on a machine with these programs only. */
const probe = async (programs: { [name: string]: string }, more: Partial<ProbeOptions> = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "ork-probes-"))
  undo.push(() => rmSync(folder, { recursive: true }))
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(folder, name), 0o755)
  }
  const env = { PATH: folder, HOME: folder, ...more.env }
  const found = await runProbes({ kubeconfig: "", slurmCommand: "", clock: withoutLimit, ...more, env })
  return Object.fromEntries(found.map(({ name, state, detail }) => [name, `${state}: ${detail}`]))
}

/** Returns the address of a server that never responds. */
const silentServer = async (): Promise<string> => {
  const server = createServer(() => {})
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  undo.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

test("missing programs and services are reported as missing", async () => {
  expect(await probe({}, { env: { XDG_RUNTIME_DIR: "/nowhere" } })).toEqual({
    python: "none: no python3 in PATH, which `python` tasks need",
    docker: expect.stringMatching(/^none: no socket of Docker or Podman/) as string,
    kubernetes: "none: no cluster is configured: KUBECONFIG is not set, and Ork does not run in a cluster",
    slurm: "none: no sbatch in PATH, which `slurm` tasks need",
  })
})

test("available programs and services are reported with their version", async () => {
  const engine = new FakeEngine()
  const host = await engine.start()
  undo.push(() => engine.stop())
  const programs = { python3: "echo Python 3.12.1", sbatch: "echo slurm-wlm 22.05.8", scontrol: "echo up" }
  expect(await probe(programs, { env: { DOCKER_HOST: host } })).toMatchObject({
    python: "ok: Python 3.12.1",
    docker: `ok: version 24.0.7 at ${host}`,
    slurm: "ok: slurm-wlm 22.05.8, and its controller responds",
  })
})

test("programs and services that cannot be used are reported with the reason", async () => {
  const programs = { python3: "echo Python 3.8.2", sbatch: "echo slurm 22", scontrol: "echo 'controller is DOWN' >&2; exit 1" }
  const found = await probe(programs, { env: { DOCKER_HOST: "tcp://127.0.0.1:1" }, kubeconfig: "/nowhere/config" })
  expect(found).toEqual({
    python: "warn: Python 3.8.2: `python` tasks need 3.9 or newer",
    docker: expect.stringMatching(/^warn: the container engine at tcp:\/\/127.0.0.1:1 cannot be reached/) as string,
    kubernetes: expect.stringMatching(/^warn: .*\/nowhere\/config/) as string,
    slurm: "warn: controller is DOWN",
  })
})

test("a missing prefix command of Slurm is reported as an error of the settings", async () => {
  expect(await probe({}, { slurmCommand: "ssh login" })).toMatchObject({
    slurm: expect.stringMatching(/^warn: ssh was not found/),
  })
})

test("a service that does not respond is reported after the time limit", async () => {
  const found = await probe({}, { clock: immediate, env: { DOCKER_HOST: `tcp://${await silentServer()}` } })
  expect(found["docker"]).toBe("warn: no response within 5 s")
})
