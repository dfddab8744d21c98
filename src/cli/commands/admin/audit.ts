// `ork audit`: lists the newest entries of the audit log, exports the log as JSON lines, and verifies its chain.

import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { InputError } from "../../terminal/errors.ts"
import { printListing } from "../../terminal/listing.ts"
import { localTimes } from "../../terminal/times.ts"
import { parseWholeNumber } from "../../terminal/option-values.ts"
import { print, printError, printResult } from "../../terminal/output.ts"
import { brokenEntry, type ChainedEntry } from "../../../core/rules/access/audit-chain.ts"
import type { AuditEntry } from "../../../protocol/client/client.ts"

const PAGE = 100
const EXIT_BROKEN = 1

export interface AuditOptions extends ServerFlags {
  limit?: string
}

export const listAudit = async (context: Context, options: AuditOptions): Promise<number> => {
  const limit = parseWholeNumber("--limit", options.limit, 1) ?? 20
  const { items } = await (await connect(context, options)).listAudit({ limit: Math.min(limit, PAGE) })
  const times = localTimes(context, context.backends.clock.now())
  return printListing(context, options, {
    items,
    none: "no entries",
    header: ["id", times.header("at"), "who", "address", "result", "action", "target", "details"],
    row: ({ id, at, actor, address, result, action, target, details }) => [
      String(id),
      times.text(at),
      actor ?? "",
      address ?? "",
      result ?? "",
      action,
      target,
      details ?? "",
    ],
  })
}

/** Reads the whole log from the server, oldest first. */
async function* pages(context: Context, options: ServerFlags): AsyncGenerator<AuditEntry[]> {
  const client = await connect(context, options)
  for (let after = 0; ;) {
    const { items } = await client.listAudit({ after, limit: PAGE })
    if (items.length > 0) yield items
    if (items.length < PAGE) return
    after = items.at(-1)!.id
  }
}

export const exportAudit = async (context: Context, options: ServerFlags): Promise<number> => {
  for await (const items of pages(context, options)) for (const entry of items) print(context, JSON.stringify(entry))
  return 0
}

export interface VerifyAuditOptions extends ServerFlags {
  file?: string
}

export const verifyAudit = async (context: Context, options: VerifyAuditOptions): Promise<number> => {
  const source = options.file === undefined ? pages(context, options) : [await readExport(context, options.file)]
  let last: ChainedEntry | null = null
  let count = 0
  for await (const items of source) {
    const entries = items.map(toChained)
    const broken = brokenEntry(last, entries)
    if (broken !== null) {
      printError(context, `ork: the audit log was changed: entry ${broken} does not continue the chain`)
      return EXIT_BROKEN
    }
    last = entries.at(-1) ?? last
    count += entries.length
  }
  const head = last === null ? null : { id: last.seq, hash: last.hash }
  const text =
    head === null ? "the audit log is empty" : `the chain is unbroken: entries ${count}, last ${head.id}, hash ${head.hash}`
  return printResult(context, options, { entries: count, head }, text)
}

const readExport = async (context: Context, file: string): Promise<AuditEntry[]> => {
  const text = await readFile(resolve(context.cwd, file), "utf8").catch((error: Error) => {
    throw new InputError(`--file: ${error.message}`)
  })
  try {
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as AuditEntry)
  } catch {
    throw new InputError(`--file: ${file} has a line that is not JSON; create it with \`ork audit export\``)
  }
}

const toChained = ({ id, key_id: keyId, ...rest }: AuditEntry): ChainedEntry => ({ ...rest, seq: id, keyId })
