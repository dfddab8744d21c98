import { useMutation, useQueryClient } from "@tanstack/react-query"
import { useNavigate } from "@tanstack/react-router"
import { type ReactNode, useState } from "react"
import { calls } from "../../api/calls.ts"
import { ConfirmDialog } from "../../components/dialog.tsx"
import { Menu } from "../../components/menu.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { useMayFor } from "../../session/session.ts"

export const RemoveWorkflow = ({ name }: { name: string }): ReactNode => {
  const [asked, setAsked] = useState(false)
  const may = useMayFor(name, "admin")
  const navigate = useNavigate()
  const client = useQueryClient()
  const remove = useMutation({
    mutationFn: () => calls.removeWorkflow(name),
    onSuccess: async () => {
      showMessage(`${name} is no longer deployed`)
      await client.invalidateQueries({ queryKey: ["workflows"] })
      await navigate({ to: "/workflows" })
    },
    onError: (error) => showProblem(`Could not remove ${name}`, error),
  })
  if (!may) return null
  return (
    <>
      <Menu label="More actions" items={[{ text: "Remove", icon: "trash", onSelect: () => setAsked(true) }]} />
      <ConfirmDialog
        open={asked}
        onClose={() => setAsked(false)}
        title={`Remove ${name}?`}
        description="The workflow and its schedules are removed. Its runs are kept."
        action="Remove"
        kind="danger"
        busy={remove.isPending}
        onConfirm={() => remove.mutate()}
      />
    </>
  )
}
