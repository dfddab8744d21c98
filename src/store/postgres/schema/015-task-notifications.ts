// Notifications of tasks.

export const TASK_NOTIFICATIONS = `
-- node, path: the task that the notification is about; NULL and empty: the run.
ALTER TABLE notifications ADD COLUMN node integer;
ALTER TABLE notifications ADD COLUMN path text NOT NULL DEFAULT '';
ALTER TABLE notification_problems ADD COLUMN node integer;
ALTER TABLE notification_problems ADD COLUMN path text NOT NULL DEFAULT '';
`
