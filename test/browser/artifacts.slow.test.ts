// The artifacts of a task in a real browser: texts, JSON and images are shown, every file is downloaded, and nothing in a file ever runs.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { useBrowser } from "../support/web-ui.ts"

const openPage = useBrowser()

const HOSTILE = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20"/><script>document.title = "run"; fetch("/api/v1/keys")</script></svg>`

test("artifacts are shown and downloaded, and their scripts never run", async () => {
  const { server, page, go, consoleErrors } = await openPage()
  await server.deploy({
    name: "files",
    tasks: {
      make: {
        command: `mkdir out; cd out; echo '{"rows":3}' > rows.json; cat > picture.svg <<'E'\n${HOSTILE}\nE\ncp picture.svg page.html; head -c 99 /dev/zero > zeros.bin`,
        artifacts: "out/*",
      },
    },
  })
  const id = await server.trigger("files")
  await server.reaches(id, "success")
  await go(`/runs/${id}?task=make`)
  const section = page.getByRole("region", { name: "Artifacts", exact: true })
  await section.getByRole("button", { name: "out/rows.json" }).click()
  await section.getByText('"rows": 3').waitFor()
  await section.getByRole("button", { name: "out/page.html" }).click()
  await section.getByText("<script>").waitFor()
  await section.getByRole("button", { name: "out/zeros.bin" }).click()
  await section.getByText("This file is no text").waitFor()
  await section.getByRole("button", { name: "out/picture.svg" }).click()
  await expect
    .poll(() => section.locator("img").evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth))
    .toBe(40)
  const downloading = page.waitForEvent("download")
  await section.getByRole("link", { name: "Download out/page.html" }).click()
  const download = await downloading
  expect(download.suggestedFilename()).toBe("page.html")
  expect(readFileSync(await download.path(), "utf8").trim()).toBe(HOSTILE)
  const opening = page.waitForEvent("download")
  const address = `/api/v1/runs/${id}/tasks/make/artifacts/content?file=out/page.html`
  await page.goto(new URL(address, page.url()).href).catch(() => undefined)
  await opening
  expect(await page.title()).toMatch(/Ork$/)
  expect(consoleErrors).toEqual([])
})
