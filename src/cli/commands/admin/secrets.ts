// `ork secrets [FILE|FOLDER…]`: lists the secrets that definitions use, and where this machine finds them. Never prints a value.

import type { Context } from "../../target/context.ts"
import { readDefinition } from "../../target/definition.ts"
import { listDefinitions } from "../../target/definition-files.ts"
import { loadConfig } from "../../target/load-config.ts"
import { InputError } from "../../terminal/errors.ts"
import { printListing } from "../../terminal/listing.ts"
import { problemText } from "../../../core/model/problems.ts"
import { type CompiledWorkflow, secretNames } from "../../../core/model/workflow.ts"
import { messageOf } from "../../../core/values/error-message.ts"

interface UsedSecret {
  name: string
  /** `missing`, or why it cannot be read. */
  state: string
  used_by: string[]
}

export const secrets = async (context: Context, paths: string[], options: { json?: boolean }): Promise<number> => {
  const config = await loadConfig(context, {})
  const files = await listDefinitions(context, paths.length === 0 ? ["."] : paths)
  const usedBy = new Map<string, string[]>()
  for (const file of files) {
    const parsed = await readDefinition(context.cwd, file, config.workerProfiles)
    if (!parsed.ok) throw new InputError(parsed.problems.map((problem) => problemText(problem, file)).join("\n"))
    for (const name of secretsOf(parsed.workflow)) usedBy.set(name, [...(usedBy.get(name) ?? []), parsed.workflow.name])
  }
  const found = await context.backends.openSecrets(config, context)
  const items: UsedSecret[] = []
  for (const [name, used_by] of [...usedBy].toSorted(([a], [b]) => a.localeCompare(b))) {
    const state = await Promise.resolve(found.find(name)).then(
      (value) => (value === null ? "missing" : "found"),
      (error: unknown) => messageOf(error),
    )
    items.push({ name, state, used_by })
  }
  printListing(context, options, {
    items,
    none: "these definitions use no secrets",
    header: ["secret", "used by", "state"],
    row: ({ name, state, used_by }) => [
      name,
      used_by.join(","),
      state === "missing"
        ? `missing: set ORK_SECRET_${name}, run \`ork secrets set ${name}\`, or see secrets in ork.yaml`
        : state,
    ],
  })
  return items.every(({ state }) => state === "found") ? 0 : 1
}

const secretsOf = (workflow: CompiledWorkflow): Set<string> => {
  const webhook = workflow.webhook === undefined ? [] : [workflow.webhook.secret].flat()
  return new Set([...webhook, ...workflow.nodes.flatMap(secretNames)])
}
