// The ways of authentication in a kubeconfig, against servers that require them.

import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createSecureServer, type Http2ServerRequest } from "node:http2"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import type { TLSSocket } from "node:tls"
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest"
import { realClock } from "../conformance/fixture.ts"
import { Cluster } from "./cluster.ts"
import { loadConfig } from "./kubeconfig.ts"
import { FakeCluster } from "./testing/fake-cluster.ts"

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ork-kubeconfig-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
})

const config = (name: string, cluster: object, user: object, context: string | null = name) => ({
  apiVersion: "v1",
  kind: "Config",
  ...(context !== null && { "current-context": context }),
  contexts: [{ name, context: { cluster: name, user: name, namespace: `${name}-space` } }],
  clusters: [{ name, cluster }],
  users: [{ name, user }],
})

const write = (name: string, content: object): string => {
  const file = join(folder, name)
  writeFileSync(file, JSON.stringify(content))
  return file
}

const connect = (kubeconfig: string, responseMs = 10_000): Cluster => {
  const cluster = new Cluster({ kubeconfig, namespace: "", env: {}, clock: realClock, responseMs })
  onTestFinished(() => cluster.close())
  return cluster
}

const JOBS = "/apis/batch/v1/namespaces/work/jobs"

describe("credentials", () => {
  let fake: FakeCluster
  let cluster: object
  beforeEach(async () => {
    fake = await new FakeCluster().start()
    onTestFinished(() => fake.stop())
    const { clusters } = JSON.parse(readFileSync(fake.kubeconfig, "utf8")) as { clusters: { cluster: object }[] }
    cluster = clusters[0]!.cluster
  })

  /** Writes a kubeconfig with a plugin that records each of its calls. */
  const plugin = (script: string): string => {
    writeFileSync(join(folder, "plugin.sh"), `#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> ${folder}/calls\n${script}\n`, {
      mode: 0o755,
    })
    const apiVersion = "client.authentication.k8s.io/v1"
    return write(
      "kubeconfig",
      config("a", cluster, { exec: { apiVersion, command: "./plugin.sh", args: [], interactiveMode: "Never" } }),
    )
  }
  const pluginCalls = (): unknown[] =>
    readFileSync(join(folder, "calls"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown)
  const credential = (token: string): string => `echo '${JSON.stringify({ kind: "ExecCredential", status: { token } })}'`

  test("a plugin is called once for many requests, with the request in its environment", async () => {
    const kubernetes = connect(plugin(credential(fake.token)))
    await Promise.all(Array.from({ length: 20 }, () => kubernetes.call("GET", JOBS)))
    const spec = { interactive: false }
    expect(pluginCalls()).toEqual([{ apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential", spec }])
  })

  test("a plugin that hangs fails the request after the time limit", async () => {
    const kubernetes = connect(plugin("exec sleep 3"), 300)
    await expect(kubernetes.call("GET", JOBS)).rejects.toThrow("does the kubeconfig's plugin hang?")
  })

  test("a credential that is no longer valid is requested again, once", async () => {
    vi.useFakeTimers({ toFake: ["Date"] })
    onTestFinished(() => void vi.useRealTimers())
    const kubernetes = connect(plugin(credential(fake.token)))
    await kubernetes.call("GET", JOBS)
    fake.token = "another"
    plugin(credential(fake.token))
    await expect(kubernetes.call("GET", JOBS)).rejects.toThrow("Unauthorized")
    vi.setSystemTime(Date.now() + 6000)
    await kubernetes.call("GET", JOBS)
    expect(pluginCalls()).toHaveLength(2)
  })

  test("a token file takes precedence over a token, and is read again after it was renewed", async () => {
    vi.useFakeTimers({ toFake: ["Date"] })
    onTestFinished(() => void vi.useRealTimers())
    writeFileSync(join(folder, "token"), `${fake.token}\n`)
    const kubernetes = connect(write("kubeconfig", config("a", cluster, { token: "old", tokenFile: "token" })))
    await kubernetes.call("GET", JOBS)
    fake.token = "renewed"
    writeFileSync(join(folder, "token"), "renewed\n")
    vi.setSystemTime(Date.now() + 6000)
    await kubernetes.call("GET", JOBS)
  })
})

test("of several files, the first one that defines a name wins, and missing files are skipped", () => {
  const first = write("first", config("a", { server: "https://first" }, { token: "1" }, null))
  const second = write("second", {
    ...config("a", { server: "https://second" }, { token: "2" }),
    clusters: [
      { name: "a", cluster: { server: "https://second" } },
      { name: "b", cluster: { server: "https://b" } },
    ],
  })
  const third = write("third", config("c", { server: "https://third" }, {}))
  const env = { KUBECONFIG: [join(folder, "none"), first, second, third].join(delimiter) }
  const { config: loaded, namespace } = loadConfig({ kubeconfig: "", env })
  expect(namespace).toBe("a-space")
  expect(loaded.getCurrentCluster()?.server).toBe("https://first")
  expect(loaded.getCurrentUser()?.token).toBe("1")
  expect(loaded.clusters.map(({ name }) => name)).toEqual(["a", "b", "c"])
  expect(() => loadConfig({ kubeconfig: join(folder, "none"), env: {} })).toThrow("ENOENT")
})

test("a client certificate authenticates over TLS, with HTTP/1.1 even if the server offers HTTP/2", async () => {
  const openssl = (...args: string[]): void => void execFileSync("openssl", args, { cwd: folder, stdio: "ignore" })
  const key = (name: string): string[] => [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-keyout",
    `${name}.key`,
  ]
  openssl("req", "-x509", ...key("ca"), "-out", "ca.crt", "-subj", "/CN=ca", "-days", "2")
  for (const name of ["localhost", "ork"]) {
    writeFileSync(join(folder, "ext"), "subjectAltName=DNS:localhost")
    openssl("req", "-new", ...key(name), "-out", `${name}.csr`, "-subj", `/CN=${name}`)
    openssl(
      "x509",
      "-req",
      "-in",
      `${name}.csr`,
      "-CA",
      "ca.crt",
      "-CAkey",
      "ca.key",
      "-out",
      `${name}.crt`,
      "-days",
      "2",
      "-extfile",
      "ext",
    )
  }
  const read = (name: string): Buffer => readFileSync(join(folder, name))
  const tls = { key: read("localhost.key"), cert: read("localhost.crt"), ca: read("ca.crt") }
  const clients: string[] = []
  const server = createSecureServer(
    { ...tls, allowHTTP1: true, requestCert: true },
    (request: Http2ServerRequest, response) => {
      const { subject } = (request.socket as TLSSocket).getPeerCertificate()
      clients.push(`${request.httpVersion} ${String(subject.CN)}`)
      response.end("{}")
    },
  )
  onTestFinished(() => void server.close())
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  const user = { "client-certificate": "ork.crt", "client-key": "ork.key" }
  const cluster = { server: `https://localhost:${port}`, "certificate-authority": "ca.crt" }
  const kubernetes = connect(write("kubeconfig", config("a", cluster, user)))
  await kubernetes.call("GET", JOBS)
  expect(clients).toEqual(["1.1 ork"])
})
