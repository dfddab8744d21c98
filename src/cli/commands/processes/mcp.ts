// `ork mcp`: serves the Model Context Protocol on the standard streams, for agents. It offers the tools that the key may use.

import { once } from "node:events"
import { type Tool, TOOLS } from "../../mcp/tools.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import type { Context } from "../../target/context.ts"
import { messageOf } from "../../../core/values/error-message.ts"
import { explainMissing } from "../../../core/settings/optional-packages.ts"
import type { Client } from "../../../protocol/client/client.ts"

export const mcp = async (context: Context, options: ServerFlags): Promise<number> => {
  const missing = explainMissing("ork mcp")
  const { McpServer } = await import("@modelcontextprotocol/sdk/server/mcp.js").catch(missing)
  const { StdioServerTransport } = await import("@modelcontextprotocol/sdk/server/stdio.js").catch(missing)
  const client = await connect(context, options)
  const { scopes } = await client.session()
  const mayTrigger = scopes.some((scope) => scope !== "read" && scope !== "worker")
  const server = new McpServer({ name: "ork", version: context.version() })
  for (const tool of TOOLS) {
    if (tool.scope === "trigger" && !mayTrigger) continue
    const { name, description, input: inputSchema } = tool
    const annotations = { readOnlyHint: tool.scope === "read", destructiveHint: false }
    server.registerTool(name, { description, inputSchema, annotations }, (input: unknown) => callTool(client, tool, input))
  }
  const ended = once(process.stdin, "end")
  await server.connect(new StdioServerTransport())
  await ended
  await server.close()
  return 0
}

/** Returns the value as JSON, or the error, such as that of a scope that the key lacks. A text is returned as it is. */
const callTool = async (client: Client, tool: Tool, input: unknown) => {
  try {
    const value = await tool.call(client, input as never)
    return { content: [{ type: "text" as const, text: typeof value === "string" ? value : JSON.stringify(value, null, 1) }] }
  } catch (error) {
    return { content: [{ type: "text" as const, text: messageOf(error) }], isError: true }
  }
}
