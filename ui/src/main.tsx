// Starts the UI: theme, cache, live stream, router.

import { CSPProvider } from "@base-ui/react/csp-provider"
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query"
import { RouterProvider } from "@tanstack/react-router"
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { ApiProblem } from "./api/http.ts"
import { retryQuery, sessionQuery } from "./api/queries.ts"
import { Toasts } from "./components/toast.tsx"
import { applyTheme } from "./layout/theme.ts"
import { LiveContext, makeLive, WatchContext } from "./live/live.ts"
import { router } from "./router.tsx"
import "./styles/index.css"

applyTheme()

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    // An expired session shows at the first rejected request; the shell then asks for a key.
    onError: (error, query) => {
      if (error instanceof ApiProblem && error.status === 401 && query.queryKey[0] !== "session") {
        void client.resetQueries({ queryKey: sessionQuery.queryKey })
      }
    },
  }),
  defaultOptions: { queries: { staleTime: 15_000, gcTime: 120_000, retry: retryQuery, refetchOnWindowFocus: true } },
})
const live = makeLive(client)

createRoot(document.getElementById("page")!).render(
  <StrictMode>
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={client}>
        <LiveContext value={live.stream}>
          <WatchContext value={live.watch}>
            <RouterProvider router={router} />
            <Toasts />
          </WatchContext>
        </LiveContext>
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
)
