import type { PlantedBug } from "./planted-bug.ts"
export const SQLITE_BUGS: PlantedBug[] = []
