import type { Logger } from "../../../src/engine/ports.ts"

export const SILENT: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
