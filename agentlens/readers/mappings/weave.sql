-- W&B Weave: calls as JSON (lines or an array; members nested, or in columns with dotted names).
--
-- Weave has no kinds of its own unless an op declares one. Where none does, a call that holds no other call is an
-- action: of a model where it used tokens, else of a tool. Inputs that are references are compared as references.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH RECURSIVE rows AS (
  SELECT json AS line, list_sort(json_keys(json)) AS members
  FROM read_json_objects(getvariable('source'), maximum_object_size = 1073741824)
  WHERE json_type(json) = 'OBJECT'
),
document AS (
  SELECT
    line ->> 'id' AS id, line ->> 'trace_id' AS trace_id, nullif(line ->> 'parent_id', '') AS parent_id,
    line ->> 'op_name' AS op_name, line ->> 'display_name' AS display_name,
    nullif(line ->> 'exception', '') AS exception, nullif(line ->> 'started_at', '') AS started_at,
    nullif(line ->> 'ended_at', '') AS ended_at, nullif(line ->> 'thread_id', '') AS thread_id,
    nullif(line ->> 'deleted_at', '') AS deleted_at, line ->> 'project_id' AS project_id,
    coalesce(
      CASE WHEN json_type(line -> 'inputs') <> 'NULL' THEN line -> 'inputs' END,
      to_json(map_from_entries(list_transform(
        nullif(list_filter(members, lambda m: starts_with(m, 'inputs.')), []),
        lambda m: {
          'k': m[8:],
          'v': json_extract(line, '/' || replace(replace(m, '~', '~0'), '/', '~1'))
        }
      )))
    ) AS inputs,
    coalesce(
      CASE WHEN json_type(line -> 'output') <> 'NULL' THEN line -> 'output' END,
      to_json(map_from_entries(list_transform(
        nullif(list_filter(members, lambda m: starts_with(m, 'output.')), []),
        lambda m: {
          'k': m[8:],
          'v': json_extract(line, '/' || replace(replace(m, '~', '~0'), '/', '~1'))
        }
      )))
    ) AS output,
    coalesce(
      CASE WHEN json_type(line -> 'attributes') <> 'NULL' THEN line -> 'attributes' END,
      to_json(map_from_entries(list_transform(
        nullif(list_filter(members, lambda m: starts_with(m, 'attributes.')), []),
        lambda m: {
          'k': m[12:],
          'v': json_extract(line, '/' || replace(replace(m, '~', '~0'), '/', '~1'))
        }
      )))
    ) AS attributes,
    coalesce(
      CASE WHEN json_type(line -> 'summary') <> 'NULL' THEN line -> 'summary' END,
      to_json(map_from_entries(list_transform(
        nullif(list_filter(members, lambda m: starts_with(m, 'summary.')), []),
        lambda m: {
          'k': m[9:],
          'v': json_extract(line, '/' || replace(replace(m, '~', '~0'), '/', '~1'))
        }
      )))
    ) AS summary
  FROM rows
),
named AS (
  SELECT *,
    coalesce(nullif(regexp_extract(op_name, '/op/([^:/]+)', 1), ''), op_name, display_name, 'op') AS name,
    lower(coalesce(attributes -> 'weave' ->> 'kind', attributes ->> '/weave.kind', attributes ->> 'kind', '')) AS declared,
    -- dotted, the name of a model stands between `usage.` and the last part
    coalesce(
      CASE WHEN json_type(summary -> 'usage') = 'OBJECT' THEN json_keys(summary -> 'usage')[1] END,
      list_filter(list_transform(
        json_keys(summary), lambda m: regexp_extract(m, '^usage\.(.+)\.\w+_tokens$', 1)), lambda m: m <> '')[1]
    ) AS model
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
  SELECT calls.*, coalesce(lanes.lane, '') AS lane, summary -> 'usage' -> model AS used, '/usage.' || replace(replace(model, '~', '~0'), '/', '~1') AS lead,
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
    try_cast(coalesce(used ->> 'input_tokens', used ->> 'prompt_tokens',
      summary ->> (lead || '.input_tokens'), summary ->> (lead || '.prompt_tokens')) AS BIGINT) END AS tokens_in,
  CASE WHEN sort = 'model' THEN
    try_cast(coalesce(used ->> 'output_tokens', used ->> 'completion_tokens',
      summary ->> (lead || '.output_tokens'), summary ->> (lead || '.completion_tokens')) AS BIGINT) END AS tokens_out,
  project_id AS workflow,
  coalesce(trace_id, id) AS trace_id,
  id AS span_id,
  parent_id AS parent_span_id
FROM kinds
ORDER BY started_at, trace_id, id
