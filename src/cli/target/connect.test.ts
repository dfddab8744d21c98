import { once } from "node:events"
import { rm, utimes, writeFile } from "node:fs/promises"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { ADMIN_KEY, setup } from "../../api/testing/setup.ts"
import { addressOf, isProven } from "../../protocol/wire/server-proof.ts"
import { commandLine, runMain } from "../testing/command-line.ts"
import { matching } from "../../../test/support/matchers.ts"

test("the error for a missing or wrong key names the options that set it", async () => {
  await using world = await commandLine()
  const wrong = await world.ork("workers", "--api-key", "not-the-key-of-this-server")
  expect([wrong.code, wrong.stderr]).toEqual([1, matching(/^ork: .*--api-key or ORK_API_KEY.*\n$/)])
  await rm(join(world.cwd, ".ork/admin.key"))
  expect((await world.ork("workers")).stderr).toMatch(/ORK_API_KEY/)
  const by = { ORK_URL: world.url, ORK_API_KEY: "the-admin-key-of-tests" }
  expect((await runMain(["workers"], { cwd: world.cwd, env: by })).code).toBe(0)
})

/** A server that accepts everything and records what it gets. */
const impostor = async () => {
  const received: string[] = []
  const server = createServer((request, response) => {
    received.push(JSON.stringify([request.url, request.headers]))
    response.setHeader("content-type", "application/json")
    response.end(JSON.stringify({ status: "ok", version: "1", proofs: ["0".repeat(64)], items: [] }))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => void server.close())
  return { port: String((server.address() as AddressInfo).port), received }
}

test("the folder's key is sent only to a server that proves that it has the key", async () => {
  await using world = await commandLine()
  const { keyFor, loadServerConfig } = await import("./connect.ts")
  const context = { cwd: world.cwd, env: {} } as never
  const key = async (url: string) => keyFor(context, await loadServerConfig(context, { url }), url)
  expect(await key(world.url)).toBe("the-admin-key-of-tests")
  const { port } = await impostor()
  await expect(key(`http://127.0.0.1:${port}`)).rejects.toThrow(/did not prove that it is the one of this folder/)
})

test("a proof is not valid at another address, so that nobody can pass it on", async () => {
  await using world = await commandLine()
  const { proves } = await import("./connect.ts")
  const key = "the-admin-key-of-tests"
  const relay = createServer((request, response) => {
    const relayed = fetch(world.url + request.url!)
    void relayed.then(async (answer) => response.setHeader("content-type", "application/json").end(await answer.text()))
  })
  relay.listen(0, "127.0.0.1")
  await once(relay, "listening")
  onTestFinished(() => void relay.close())
  const { port } = new URL(world.url)
  expect(await proves(world.url, key)).toBe(true)
  expect(await proves(`http://localhost:${port}`, key)).toBe(true)
  expect(await proves(`http://127.0.0.1:${(relay.address() as AddressInfo).port}`, key)).toBe(false)
})

test("a server behind a proxy proves the address that people use", async () => {
  await using api = await setup({ config: { url: "https://ork.example.com/" } })
  const nonce = "0".repeat(32)
  const { proofs } = (await api.server.app.inject({ url: `/health?nonce=${nonce}` })).json<{ proofs: string[] }>()
  const proven = (url: string) => isProven(proofs, { key: ADMIN_KEY, nonce, addresses: [addressOf(url)] })
  expect([
    proven("https://ork.example.com"),
    proven("https://ork.example.com:8443"),
    proven("https://other.example.com"),
  ]).toEqual([true, false, false])
})

test("a command whose server is gone does not send the folder's key to whoever listens at the default address", async () => {
  await using world = await commandLine()
  await rm(join(world.cwd, ".ork/server.json"))
  const { port, received } = await impostor()
  for (const command of [["workers"], ["trigger", "x"], ["keys"]]) {
    const { code, stderr } = await runMain(command, { cwd: world.cwd, env: { ORK_PORT: port } })
    expect([code, stderr]).toEqual([2, matching(/did not prove that it is the one of this folder.*--api-key or ORK_API_KEY/)])
  }
  expect(received.join("\n")).not.toContain("the-admin-key-of-tests")
  expect(received.join("\n")).not.toContain("x-api-key")
})

test("a server with a key that a person chose proves nothing, because the proof would help to guess it", async () => {
  await using world = await commandLine()
  const nonce = "0".repeat(32)
  expect(await (await fetch(`${world.url}/health?nonce=${nonce}`)).json()).toHaveProperty("proofs")
  expect(await (await fetch(`${world.url}/health`)).json()).not.toHaveProperty("proofs")
  expect((await fetch(`${world.url}/health?nonce=x`)).status).toBe(400)
  await using chosen = await setup({ config: { folderKey: undefined } as never })
  const response = await chosen.server.app.inject({ url: `/health?nonce=${nonce}` })
  expect(response.json()).not.toHaveProperty("proofs")
})

test("the error for an unreachable server names the command that starts one", async () => {
  await using world = await commandLine()
  await rm(join(world.cwd, ".ork/server.json"))
  const { code, stderr } = await runMain(["workers"], { cwd: world.cwd, env: { ORK_PORT: "9" } })
  expect([code, stderr]).toEqual([1, matching(/^ork: no server responds at http:\/\/127\.0\.0\.1:9: .*`ork serve`.*\n$/)])
})

test("the error for a killed or hanging server of the folder says which server, since when, and what to do", async () => {
  await using world = await commandLine()
  const file = join(world.cwd, ".ork/server.json")
  const seen = new Date("2026-01-31T10:00:00Z")
  const failWith = async (server: object) => {
    await writeFile(file, JSON.stringify(server))
    await utimes(file, seen, seen)
    return await runMain(["workers"], { cwd: world.cwd, env: { ORK_PORT: "9", TZ: "Europe/Berlin" } })
  }
  const killed = await failWith({ url: "http://127.0.0.1:9", pid: 2 ** 30 })
  expect([killed.code, killed.stderr]).toEqual([
    1,
    matching(
      /^ork: the server of this folder \(http:\/\/127\.0\.0\.1:9, process 1073741824\) does not respond; it was last seen at 2026-01-31 11:00:00 GMT\+1, and its process is gone.*`ork serve`.*\n$/,
    ),
  ])
  const hanging = await failWith({ url: "http://127.0.0.1:9", pid: process.pid })
  expect(hanging.stderr).toMatch(new RegExp(`its process hangs, .*\`kill ${process.pid}\` and start it again`))
})
