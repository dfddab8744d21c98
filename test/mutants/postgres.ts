import type { PlantedBug } from "./planted-bug.ts"
export const POSTGRES_BUGS: PlantedBug[] = []
