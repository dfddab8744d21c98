// Pins the base images of deploy/ by digest, or updates their digests: asks the registry of each image for the digest of its tag, and
// writes `IMAGE:TAG@sha256:…` into the files. Changes nothing if a registry does not answer. `node scripts/pin-images.ts [--registry
// NAME=URL]…`: URL is another address of a registry, such as a mirror: `docker.io=https://mirror.example`.

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { IMAGE_FILES, imagesIn, replaceImages, withoutDigest } from "./images.ts"
import { resolveDigest } from "./registry.ts"

/** Returns the images that it pinned. `root`: folder of the checkout. */
export const pinImages = async (root: string, addresses: ReadonlyMap<string, string>): Promise<string[]> => {
  const files = IMAGE_FILES.map((file) => ({ path: join(root, file), text: readFileSync(join(root, file), "utf8") }))
  const names = new Map<string, string>()
  for (const image of new Set(files.flatMap(({ text }) => imagesIn(text)))) {
    const tagged = withoutDigest(image)
    names.set(image, `${tagged}@${await resolveDigest(tagged, addresses)}`)
  }
  for (const { path, text } of files) writeFileSync(path, replaceImages(text, names))
  return [...new Set(names.values())]
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { registry: { type: "string", multiple: true, default: [] } } })
  const addresses = values.registry.map((text) => {
    const at = text.indexOf("=")
    if (at < 1) throw new Error(`--registry ${text}: write NAME=URL, such as docker.io=https://mirror.example`)
    return [text.slice(0, at), text.slice(at + 1).replace(/\/$/, "")] as const
  })
  try {
    const pinned = await pinImages(join(import.meta.dirname, ".."), new Map(addresses))
    for (const image of pinned) console.log(image)
  } catch (error) {
    console.error(`${(error as Error).message}; nothing was changed`)
    process.exitCode = 1
  }
}
