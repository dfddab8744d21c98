import { defineConfig } from "vitest/config"

// `npm test` runs a slice of everything; ORK_TEST_ALL=1 (`npm run test:all`) adds the files that end in `.slow.test.ts`.
const all = process.env.ORK_TEST_ALL === "1"
const exclude = ["**/node_modules/**", "dist/**", ...(all ? [] : ["**/*.slow.test.ts"])]

export default defineConfig({
  test: {
    pool: "forks",
    // One more than the cores of a small machine: many tests wait for processes.
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // `expect.poll` gives up after one second by default, which a busy machine exceeds.
    expect: { poll: { timeout: 30_000 } },
    globalSetup: ["test/support/global-setup.ts"],
    reporters: process.env.CI ? ["dot", "./test/support/count-reporter.ts"] : ["default", "./test/support/count-reporter.ts"],
    projects: [
      { extends: true, test: { name: "unit", include: ["src/**/*.test.ts"], exclude } },
      { extends: true, test: { name: "ui", include: ["ui/**/*.test.ts"], exclude } },
      ...(all
        ? [
            {
              extends: true as const,
              test: { name: "api on Postgres", include: ["src/api/**/*.test.ts"], env: { ORK_API_STORE: "postgres" } },
            },
          ]
        : []),
      {
        extends: true,
        test: {
          name: "blackbox",
          include: ["test/**/*.test.ts", "scripts/**/*.test.ts"],
          exclude,
          testTimeout: 120_000,
          // Continuous integration runs on busy machines. count-reporter.ts names each test that passed only when repeated.
          retry: process.env.CI ? 1 : 0,
        },
      },
    ],
  },
})
