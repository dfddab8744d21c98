// `ork open [TARGET]`: opens the web UI in a browser and signs it in. Without a desktop it prints the link.

import { spawn } from "node:child_process"
import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { findTarget } from "../../target/find-target.ts"
import { print, printResult } from "../../terminal/output.ts"
import type { Client } from "../../../protocol/client/client.ts"

export interface OpenOptions extends ServerFlags {
  print?: boolean
}

export const open = async (context: Context, target: string | undefined, options: OpenOptions): Promise<number> => {
  const client = await connect(context, options)
  const page = target === undefined ? "/ui/" : await pageOf(client, target)
  const { path } = await client.createSignInLink(page)
  const url = client.url + path
  const wanted = options.print !== true && options.json !== true && context.stdout.isTTY === true
  if (wanted && (await openBrowser(url))) {
    print(context, `opened ${client.url}${page} in the browser`)
    return 0
  }
  return printResult(context, options, { url }, url)
}

const pageOf = async (client: Client, text: string): Promise<string> => {
  const target = await findTarget(client, text)
  return "run" in target ? `/ui/runs/${target.run.id}` : `/ui/workflows/${target.workflow.name}`
}

/** Returns false if there is no command that opens a browser. */
const openBrowser = (url: string): Promise<boolean> =>
  new Promise((resolve) => {
    const command = process.platform === "darwin" ? "open" : "xdg-open"
    const child = spawn(command, [url], { stdio: "ignore", detached: true })
    child.once("error", () => resolve(false))
    child.once("exit", (code) => resolve(code === 0))
    child.unref()
  })
