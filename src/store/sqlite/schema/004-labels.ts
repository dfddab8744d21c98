// Moves work with labels to the lanes of restricted work: `q:QUEUE|LABELS` becomes `f:QUEUE||LABELS`.

export const LABELS = `
UPDATE tasks SET lane = 'f:' || substr(lane, 3, instr(lane, '|') - 2) || substr(lane, instr(lane, '|')) WHERE lane GLOB 'q:*|*';
UPDATE tasks SET resume_lane = 'f:' || substr(resume_lane, 3, instr(resume_lane, '|') - 2) || substr(resume_lane, instr(resume_lane, '|')) WHERE resume_lane GLOB 'q:*|*';
`
