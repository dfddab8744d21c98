// Vitest's asymmetric matchers with types; the originals are `any`.

import { expect } from "vitest"

export const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern)
export const containing = (text: string): unknown => expect.stringContaining(text)
export const having = (fields: object): unknown => expect.objectContaining(fields)
export const including = (items: unknown[]): unknown => expect.arrayContaining(items)
