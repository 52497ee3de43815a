-- Braintrust: log rows as JSON (lines or an array). Of several states of one row the newest `_xact_id` stands.
--
-- A span of type `tool` is a call; `function` and `task` spans wrap others and are kept as facts. A score is what
-- something outside the agent said: 1 is passed, 0 failed, anything between neither. Of several parents the first
-- is taken.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH RECURSIVE document AS (
  SELECT * FROM read_json(
    getvariable('source'), maximum_object_size = 1073741824,
    columns = {
      id: 'VARCHAR', _xact_id: 'VARCHAR', span_id: 'VARCHAR', root_span_id: 'VARCHAR', span_parents: 'VARCHAR[]',
      span_attributes: 'JSON', input: 'JSON', output: 'JSON', error: 'JSON', scores: 'JSON', metadata: 'JSON',
      metrics: 'JSON', created: 'VARCHAR', project_id: 'VARCHAR'
    }
  )
),
newest AS (
  SELECT * FROM document
  WHERE coalesce(span_id, id) IS NOT NULL
  QUALIFY row_number() OVER (
    PARTITION BY coalesce(span_id, id) ORDER BY try_cast(_xact_id AS UBIGINT) DESC NULLS LAST, _xact_id DESC
  ) = 1
),
spans AS (
  SELECT
    coalesce(root_span_id, span_id, id) AS run_id,
    coalesce(span_id, id) AS span_id,
    span_parents[1] AS parent_span_id,
    span_attributes ->> 'name' AS name,
    span_attributes ->> 'type' AS type,
    nullif(coalesce(metadata ->> 'agent_name', metadata ->> 'agent'), '') AS agent,
    CASE WHEN json_type(input) = 'NULL' THEN NULL ELSE input ->> '$' END AS asked,
    CASE WHEN json_type(output) = 'NULL' THEN NULL ELSE output ->> '$' END AS answered,
    nullif(coalesce(error ->> 'message', error ->> '$'), '') AS error,
    coalesce(error ->> 'type', error ->> 'name') AS error_type,
    try_cast(metrics ->> 'start' AS DOUBLE) AS began,
    try_cast(metrics ->> 'end' AS DOUBLE) AS ended,
    created, scores, metadata, metrics
  FROM newest
),
climb(span_id, agent, above, step) AS (
  SELECT span_id, agent, parent_span_id, 0 FROM spans
  UNION ALL
  SELECT climb.span_id, spans.agent, spans.parent_span_id, step + 1
  FROM climb JOIN spans ON spans.span_id = climb.above
  WHERE climb.agent IS NULL AND step < 64
),
lanes AS (
  SELECT span_id, arg_min(agent, step) FILTER (agent IS NOT NULL) AS lane FROM climb GROUP BY ALL
),
kinds AS (
  SELECT spans.*, coalesce(lanes.lane, '') AS lane,
    CASE type WHEN 'tool' THEN 'tool' WHEN 'llm' THEN 'model' ELSE 'log' END AS sort,
    nullif(regexp_extract(name, '^(?:transfer|hand_?off|delegate)_to_(\w+)$', 1), '') AS addressee
  FROM spans JOIN lanes USING (span_id)
),
judged AS (
  SELECT *, unnest(map_entries(try_cast(scores AS MAP(VARCHAR, DOUBLE)))) AS score FROM kinds
  WHERE json_type(scores) = 'OBJECT'
)
SELECT
  run_id,
  CASE WHEN sort = 'tool' AND addressee IS NOT NULL THEN 'handoff' ELSE sort END AS kind,
  lane AS agent,
  CASE WHEN sort = 'tool' THEN coalesce(name, 'tool') ELSE '' END AS tool,
  CASE WHEN sort = 'tool' THEN addressee END AS target,
  NULL AS outcome,
  CASE WHEN sort = 'tool' THEN asked END AS args,
  CASE WHEN sort = 'tool' THEN coalesce(answered, error) END AS result,
  CASE WHEN error IS NOT NULL THEN coalesce(
    error_type,
    -- the line behind the frames of the last traceback, else the first words
    nullif(regexp_extract(coalesce(
      nullif(regexp_extract(error, '(?s)^.*Traceback \(most recent call last\):?[ \r]*\n(?:[ \t\r][^\n]*\n|\n)*([^\n]+)', 1), ''),
      trim(error, E' \t\r\n')), '^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)\s*(?:[:(]|$)', 1), ''),
    'unknown') END AS error_class,
  coalesce(try(make_timestamp((round(began * 1e6))::BIGINT)::TIMESTAMPTZ), try_cast(created AS TIMESTAMPTZ)) AS at,
  try(make_timestamp((round(ended * 1e6))::BIGINT)::TIMESTAMPTZ) AS ended_at,
  ended IS NULL AS open,
  coalesce(metadata ->> 'session_id', metadata ->> 'thread_id', metadata ->> 'conversation_id') AS session,
  metadata ->> 'model' AS model,
  CASE WHEN sort = 'model' THEN try_cast(try_cast(metrics ->> 'prompt_tokens' AS DOUBLE) AS BIGINT) END AS tokens_in,
  CASE WHEN sort = 'model' THEN try_cast(try_cast(metrics ->> 'completion_tokens' AS DOUBLE) AS BIGINT) END AS tokens_out,
  CASE WHEN sort = 'model' THEN try_cast(metrics ->> 'estimated_cost' AS DOUBLE) END AS cost_usd,
  run_id AS trace_id,
  span_id,
  parent_span_id
FROM kinds
UNION ALL BY NAME
SELECT
  run_id,
  'verdict' AS kind,
  lane AS agent,
  '' AS tool,
  score.key AS target,
  CASE score.value WHEN 1 THEN 'passed' WHEN 0 THEN 'failed' ELSE 'unknown' END AS outcome,
  false AS open,
  run_id AS trace_id,
  span_id AS parent_span_id
FROM judged
WHERE score.value IS NOT NULL
ORDER BY run_id, "at" NULLS LAST, span_id, target
