// The images of other people in Dockerfiles and Compose files: which there are, which of them no digest pins, and how to pin them.

/** Files whose images a release pins. */
export const IMAGE_FILES = ["deploy/Dockerfile", "deploy/compose.yaml"]

/** Where a file names an image; the image is the second group. `${NAME:-IMAGE}` and `ARG NAME_IMAGE=IMAGE` are defaults. */
const PLACES = [
  /^(# syntax=)(\S+)()/gm,
  /^(ARG \w*IMAGE=)(\S+)()/gm,
  /^(FROM (?:--\S+ )*)([^\s$]+)()/gm,
  /^(\s*image: ?\$\{\w+:-)([^\s}]+)(\})/gm,
  /^(\s*image: ?)([^\s$]+)()/gm,
]

const DIGEST = /@sha256:[0-9a-f]{64}$/

/** Returns the images of a file. Stages and Ork's own image are none. */
export const imagesIn = (text: string): string[] => {
  const own = new Set(["ork", "scratch", ...[...text.matchAll(/^FROM .* AS (\S+)/gm)].map(([, stage]) => stage!)])
  const images = PLACES.flatMap((place) => [...text.matchAll(place)].map(([, , image]) => image!))
  return [...new Set(images)].filter((image) => !own.has(image))
}

export const unpinnedImages = (text: string): string[] => imagesIn(text).filter((image) => !DIGEST.test(image))

/** Returns an image without its digest. */
export const withoutDigest = (image: string): string => image.replace(DIGEST, "")

/** Returns the text with other names for its images. */
export const replaceImages = (text: string, names: ReadonlyMap<string, string>): string =>
  PLACES.reduce(
    (replaced, place) =>
      replaced.replaceAll(
        place,
        (_, before: string, image: string, after: string) => before + (names.get(image) ?? image) + after,
      ),
    text,
  )
