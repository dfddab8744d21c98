// `ork schema`: prints the JSON Schema of definitions.

import { z } from "zod"
import type { Context } from "../../target/context.ts"
import { print } from "../../terminal/output.ts"
import { workflowSchema } from "../../../definition/workflow-schema.ts"

export const schemaText = (): string => {
  const schema = z.toJSONSchema(workflowSchema, { io: "input", unrepresentable: "any", target: "draft-07" })
  return JSON.stringify({ title: "Ork workflow", ...schema }, null, 2)
}

export const schema = async (context: Context): Promise<number> => {
  print(context, schemaText())
  return 0
}
