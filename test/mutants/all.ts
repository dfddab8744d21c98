import { CORE_BUGS } from "./core.ts"
import { ENGINE_BUGS } from "./engine.ts"
import { FAULT_BUGS } from "./faults.ts"
import { FUNCTION_BUGS } from "./functions.ts"
import type { PlantedBug } from "./planted-bug.ts"
import { POSTGRES_BUGS } from "./postgres.ts"
import { SERVICE_BUGS } from "./services.ts"
import { SQLITE_BUGS } from "./sqlite.ts"

export const PLANTED_BUGS: readonly PlantedBug[] = [
  ...CORE_BUGS,
  ...ENGINE_BUGS,
  ...SQLITE_BUGS,
  ...POSTGRES_BUGS,
  ...FAULT_BUGS,
  ...FUNCTION_BUGS,
  ...SERVICE_BUGS,
]
