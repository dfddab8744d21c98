// Builds the UI into dist/ui, which `ork serve` serves. Asset names contain a hash; each asset has compressed versions.

import react from "@vitejs/plugin-react"
import { defineConfig } from "vite"
import { precompress } from "./build/precompress.ts"

export default defineConfig({
  root: import.meta.dirname,
  base: "/ui/",
  plugins: [react(), precompress()],
  worker: { format: "es" },
  build: {
    outDir: "../dist/ui",
    emptyOutDir: true,
    target: "es2023",
    // Assets in data: URLs would require a weaker content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: "manifest.json",
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
  },
  server: { proxy: { "/api": "http://127.0.0.1:4000", "/ui/sign-in": "http://127.0.0.1:4000" } },
})
