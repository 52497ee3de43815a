-- SWE-agent trajectories (.traj): one object a file. A step's action is a shell line; its first word is the tool.
-- Proved on: twelve public trajectories, and made-up files.
WITH document AS (
  SELECT trajectory FROM read_json(
    getvariable('source'),
    format = 'unstructured', maximum_object_size = 1073741824,
    columns = {trajectory: 'STRUCT(action VARCHAR, observation VARCHAR)[]'}
  )
),
steps AS (
  SELECT unnest(trajectory) AS step, generate_subscripts(trajectory, 1) AS number FROM document
),
told AS (
  SELECT trim(step.action, E' \t\r\n') AS action, step.observation AS observation, number FROM steps
)
SELECT
  regexp_replace(parse_filename(getvariable('name')), '\.traj(\.json)?$', '') AS run_id,
  number - 1 AS seq,
  'swe-agent' AS workflow,
  coalesce(nullif(regexp_extract(action, '^\S+'), ''), 'none') AS tool,
  action AS args,
  observation AS result
FROM told
WHERE action IS NOT NULL
