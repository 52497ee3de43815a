-- W&B Weave: calls as JSON (lines or an array, nested members).
--
-- Weave has no kinds of its own unless an op declares one. Where none does, a call that holds no other call is an
-- action: of a model where it used tokens, else of a tool. Inputs that are references are compared as references.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH RECURSIVE document AS (
  SELECT * FROM read_json(
    getvariable('source'), maximum_object_size = 1073741824,
    columns = {
      id: 'VARCHAR', trace_id: 'VARCHAR', parent_id: 'VARCHAR', op_name: 'VARCHAR', display_name: 'VARCHAR',
      inputs: 'JSON', output: 'JSON', exception: 'VARCHAR', summary: 'JSON', attributes: 'JSON',
      started_at: 'VARCHAR', ended_at: 'VARCHAR', thread_id: 'VARCHAR', deleted_at: 'VARCHAR', project_id: 'VARCHAR'
    }
  )
),
named AS (
  SELECT *,
    coalesce(nullif(regexp_extract(op_name, '/op/([^:/]+)', 1), ''), op_name, display_name, 'op') AS name,
    lower(coalesce(attributes -> 'weave' ->> 'kind', attributes ->> 'kind', '')) AS declared,
    CASE WHEN json_type(summary -> 'usage') = 'OBJECT' THEN json_keys(summary -> 'usage')[1] END AS model
  FROM document
  WHERE id IS NOT NULL AND op_name IS NOT NULL AND deleted_at IS NULL
),
calls AS (
  SELECT *,
    CASE
      WHEN declared IN ('tool', 'agent') THEN declared
      WHEN declared = 'llm' THEN 'model'
      WHEN declared <> '' THEN 'log'
      WHEN id IN (SELECT parent_id FROM named WHERE parent_id IS NOT NULL) THEN 'log'
      WHEN model IS NOT NULL THEN 'model'
      ELSE 'tool'
    END AS sort,
    CASE WHEN declared = 'agent' THEN coalesce(display_name, name) ELSE attributes ->> 'agent_name' END AS agent
  FROM named
),
climb(id, agent, above, step) AS (
  SELECT id, agent, parent_id, 0 FROM calls
  UNION ALL
  SELECT climb.id, calls.agent, calls.parent_id, step + 1
  FROM climb JOIN calls ON calls.id = climb.above
  WHERE climb.agent IS NULL AND step < 64
),
lanes AS (
  SELECT id, arg_min(agent, step) FILTER (agent IS NOT NULL) AS lane FROM climb GROUP BY ALL
),
kinds AS (
  SELECT calls.*, coalesce(lanes.lane, '') AS lane, summary -> 'usage' -> model AS used,
    nullif(regexp_extract(name, '^(?:transfer|hand_?off|delegate)_to_(\w+)$', 1), '') AS addressee,
    -- the line behind the frames of the last traceback, else the last line
    regexp_extract(coalesce(
      nullif(regexp_extract(exception, '(?s)^.*Traceback \(most recent call last\):?[ \r]*\n(?:[ \t\r][^\n]*\n|\n)*([^\n]+)', 1), ''),
      regexp_extract(rtrim(exception, E' \t\r\n'), '([^\n]*)$', 1)), '^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?:\s*[:(]|$)', 1) AS class
  FROM calls JOIN lanes USING (id)
)
SELECT
  coalesce(trace_id, id) AS run_id,
  CASE WHEN sort = 'tool' AND addressee IS NOT NULL THEN 'handoff' ELSE sort END AS kind,
  lane AS agent,
  CASE sort WHEN 'tool' THEN name WHEN 'agent' THEN lane ELSE '' END AS tool,
  CASE WHEN sort = 'tool' THEN addressee END AS target,
  CASE WHEN sort = 'tool' THEN inputs ->> '$' END AS args,
  CASE WHEN sort = 'tool' AND json_type(output) <> 'NULL' THEN output ->> '$' END AS result,
  CASE WHEN exception IS NOT NULL THEN coalesce(nullif(class, ''), 'unknown') END AS error_class,
  try_cast(started_at AS TIMESTAMPTZ) AS at,
  try_cast(ended_at AS TIMESTAMPTZ) AS ended_at,
  ended_at IS NULL AS open,
  thread_id AS session,
  CASE WHEN sort = 'model' THEN model END AS model,
  CASE WHEN sort = 'model' THEN
    try_cast(coalesce(used ->> 'input_tokens', used ->> 'prompt_tokens') AS BIGINT) END AS tokens_in,
  CASE WHEN sort = 'model' THEN
    try_cast(coalesce(used ->> 'output_tokens', used ->> 'completion_tokens') AS BIGINT) END AS tokens_out,
  project_id AS workflow,
  coalesce(trace_id, id) AS trace_id,
  id AS span_id,
  parent_id AS parent_span_id
FROM kinds
ORDER BY started_at, trace_id, id
