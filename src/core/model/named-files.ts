// Files beside the definition that a task names in its fields. They are stored with the workflow.

import type { Node } from "./workflow.ts"

export interface NamedFile {
  field: "file" | "requirements" | "env_file"
  file: string
}

export const namedFiles = ({ file, requirements, envFile }: Node): NamedFile[] => [
  ...(file === undefined ? [] : [{ field: "file", file } as const]),
  ...(typeof requirements === "string" ? [{ field: "requirements", file: requirements } as const] : []),
  ...(envFile === undefined ? [] : [{ field: "env_file", file: envFile } as const]),
]
