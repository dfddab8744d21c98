// Moves work with labels to the lanes of restricted work: `q:QUEUE|LABELS` becomes `f:QUEUE||LABELS`.

export const LABELS = `
UPDATE tasks SET lane = 'f:' || substr(lane, 3, strpos(lane, '|') - 2) || substr(lane, strpos(lane, '|')) WHERE lane LIKE 'q:%|%';
UPDATE tasks SET resume_lane = 'f:' || substr(resume_lane, 3, strpos(resume_lane, '|') - 2) || substr(resume_lane, strpos(resume_lane, '|')) WHERE resume_lane LIKE 'q:%|%';
UPDATE ready_queue SET lane = 'f:' || substr(lane, 3, strpos(lane, '|') - 2) || substr(lane, strpos(lane, '|')) WHERE lane LIKE 'q:%|%';
`
