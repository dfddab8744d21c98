// `ork mcp` against a real server, with the client of the official SDK.

import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { expect, onTestFinished, test } from "vitest"
import { containing } from "../support/matchers.ts"
import { ORK, temporaryFolder } from "../support/ork.ts"
import { type Server, startServer } from "../support/server.ts"

/** Starts `ork mcp` with a key, as the program of an agent does. */
const connect = async (server: Server, key: string) => {
  const client = new Client({ name: "test", version: "1" })
  const env = { PATH: process.env["PATH"]!, ORK_URL: server.url, ORK_API_KEY: key }
  await client.connect(new StdioClientTransport({ command: ORK, args: ["mcp"], env, cwd: temporaryFolder() }))
  onTestFinished(() => client.close())
  return {
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    async call(name: string, input: Record<string, unknown>) {
      const { content, isError } = await client.callTool({ name, arguments: input })
      const { text } = (content as { text: string }[])[0]!
      return { text, isError: isError === true, json: () => JSON.parse(text) as Record<string, unknown> }
    },
  }
}

test("an agent finds out why a run failed, and starts and retries runs", async () => {
  const server = await startServer([], { cwd: temporaryFolder() })
  await server.deploy({
    name: "etl",
    params: { broken: true },
    tasks: {
      load: { command: "echo reading; test ${{ params.broken }} = false" },
      report: { depends_on: ["load"], command: "true" },
    },
  })
  const agent = await connect(server, server.key)
  expect(await agent.tools()).toEqual(["list", "show", "explain", "logs", "trigger", "retry"])
  expect((await agent.call("list", { what: "workflows" })).text).toContain('"name": "etl"')
  const { id } = (await agent.call("trigger", { workflow: "etl" })).json()
  await server.reaches(id as string, "failed")
  expect((await agent.call("list", { what: "runs", status: "failed" })).text).toContain(id as string)
  const shown = (await agent.call("show", { run: "etl#1", status: "failed" })).json()
  expect(shown["task_list"]).toMatchObject([{ name: "load", status: "failed", exit_code: 1 }])
  expect((await agent.call("explain", { run: "latest", task: "load" })).text).toContain("exit code 1")
  expect((await agent.call("logs", { run: "latest", task: "load", lines: 5 })).text).toBe("reading")
  expect((await agent.call("retry", { run: "latest", task: "load" })).json()).toMatchObject({ id })
  const wrong = await agent.call("trigger", { workflow: "etl", params: { brokn: false } })
  expect([wrong.isError, wrong.text]).toEqual([true, containing("brokn")])
  const unknown = await agent.call("show", { run: "nothing" })
  expect(unknown.isError).toBe(true)
})

test("a key that may only read has no tools that change something", async () => {
  const server = await startServer([], { cwd: temporaryFolder() })
  const { body } = await server.call("POST", "/keys", { name: "agent", scopes: ["read"] })
  const agent = await connect(server, body["key"] as string)
  expect(await agent.tools()).toEqual(["list", "show", "explain", "logs"])
  expect((await agent.call("trigger", { workflow: "etl" })).isError).toBe(true)
})
