// The functions of registered.yaml.

import { register, FatalError } from "ork"

interface Size {
  width: number
  height: number
}

register("resize", async ({ width }: { width: number }, ctx): Promise<Size> => {
  if (width > 4000) throw new FatalError(`${width} is too wide`)
  ctx.log(`resizing to ${width}, attempt ${ctx.attempt}`)
  return { width, height: (width * 3) / 4 }
})

register("report", ({ sizes }: { sizes: Size[] }, ctx) => {
  ctx.log(`${sizes.length} sizes up to ${Math.max(...sizes.map(({ width }) => width))}`)
  return { sizes: sizes.length }
})
