// Hostile texts in every page of the web UI, in a real browser.

import { launchChromium } from "../../support/components/chromium.ts"
import { openHostilePages } from "../../support/hostile-pages.ts"
import type { Attack } from "../attack.ts"

const MIN_PAGES = 45

export const pageAttacks: Attack[] = [
  {
    name: "pages: texts of users become markup, code or addresses in the web UI",
    flood: true,
    async run(target) {
      const browser = await launchChromium()
      try {
        const { pages, achieved } = await openHostilePages(target, browser)
        if (pages < MIN_PAGES) throw new Error(`only ${pages} pages were opened`)
        return achieved[0] ?? null
      } finally {
        await browser.close()
      }
    },
  },
]
