// Loads the code of a page or view. It is missing when the server was updated, and it cannot be loaded while the server is down. A browser
// does not load it again: the page must be reloaded once the server responds (components/missing-code.tsx).

export class CodeMissing extends Error {
  constructor() {
    super("This part of the web UI could not be loaded.")
    this.name = "CodeMissing"
  }
}

export const code =
  <Module>(load: () => Promise<Module>): (() => Promise<Module>) =>
  () =>
    load().catch(() => {
      throw new CodeMissing()
    })

/** A reload that did not help is not repeated within this time, in milliseconds. */
const MIN_RELOAD_INTERVAL_MS = 15_000

/** Returns whether the page may reload itself: not if it did so a moment ago. `last` is the time of the last reload, as text. */
export const mayReload = (last: string | null, now: number): boolean =>
  last === null || !(now - Number(last) < MIN_RELOAD_INTERVAL_MS)
