// The definitions that the two processes share.
import { signal, workflow } from "ork"
import { z } from "zod"

export const paid = signal("paid", z.object({ cents: z.int() }))

export const order = workflow("order", { input: z.object({ item: z.string() }) }, async ({ item }, step) => {
  const payment = await step.waitFor(paid, { timeout: "3d" })
  return { item, cents: payment?.cents ?? 0 }
})
