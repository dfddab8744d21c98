// Notifications of tasks.

export const TASK_NOTIFICATIONS = `
-- node, path: the task that the notification is about; NULL and empty: the run.
ALTER TABLE notifications ADD COLUMN node INTEGER;
ALTER TABLE notifications ADD COLUMN path TEXT NOT NULL DEFAULT '';
ALTER TABLE notification_problems ADD COLUMN node INTEGER;
ALTER TABLE notification_problems ADD COLUMN path TEXT NOT NULL DEFAULT '';
`
