-- Datadog LLM Observability: answers of the export interface, ingest bodies, or spans one a line, all JSON.
--
-- Ids are decimal text and stay so; a parent called "undefined" is none. Times are nanoseconds. An evaluation passed
-- or failed only where its assessment says so.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH RECURSIVE document AS (
  SELECT json FROM read_json_objects(getvariable('source'), maximum_object_size = 1073741824)
),
rows AS (
  SELECT unnest(CASE
    WHEN json_type(json -> '$.data.attributes.spans') = 'ARRAY' THEN (json -> '$.data.attributes.spans[*]')
    WHEN json_type(json -> '$.data') = 'ARRAY' THEN (json -> '$.data[*]')
    WHEN json_type(json -> '$.spans') = 'ARRAY' THEN (json -> '$.spans[*]')
    ELSE [json]
  END) AS row, coalesce(json ->> '$.data.attributes.ml_app', json ->> 'ml_app') AS app
  FROM document
),
told AS (
  SELECT CASE WHEN json_type(row -> 'attributes') = 'OBJECT' THEN row -> 'attributes' ELSE row END AS span, app FROM rows
),
spans AS (
  SELECT
    span ->> 'trace_id' AS trace_id,
    span ->> 'span_id' AS span_id,
    nullif(nullif(nullif(span ->> 'parent_id', 'undefined'), '0'), '') AS parent_span_id,
    span ->> 'session_id' AS session,
    span ->> 'name' AS name,
    lower(coalesce(
      span -> 'meta' ->> 'span.kind', span -> 'meta' ->> 'kind', span -> 'meta' -> 'span' ->> 'kind',
      span ->> 'span_kind', span ->> 'kind', '')) AS sort,
    try_cast(span ->> 'start_ns' AS BIGINT) AS began,
    try_cast(try_cast(span ->> 'duration' AS DOUBLE) AS BIGINT) AS lasted,
    span ->> 'status' AS status,
    coalesce(span -> 'meta' -> 'error', span -> 'error') AS error,
    coalesce(span -> 'meta' -> 'input', span -> 'input') AS input,
    coalesce(span -> 'meta' -> 'output', span -> 'output') AS output,
    coalesce(span -> 'meta' -> 'metadata', span -> 'metadata') AS metadata,
    span -> 'meta' AS meta, span -> 'metrics' AS metrics,
    coalesce(span -> 'evaluation', span -> 'evaluations', span -> 'evaluation_metrics') AS evaluations,
    coalesce(span ->> 'ml_app', app) AS app,
    coalesce(span ->> 'model_name', span -> 'meta' ->> 'model_name') AS model,
    span ->> 'status_message' AS status_message
  FROM told
  WHERE span ->> 'trace_id' IS NOT NULL AND span ->> 'span_id' IS NOT NULL
),
climb(trace_id, span_id, agent, above, step) AS (
  SELECT trace_id, span_id, CASE WHEN sort = 'agent' THEN name END, parent_span_id, 0 FROM spans
  UNION ALL
  SELECT climb.trace_id, climb.span_id, CASE WHEN spans.sort = 'agent' THEN spans.name END, spans.parent_span_id, step + 1
  FROM climb JOIN spans ON spans.trace_id = climb.trace_id AND spans.span_id = climb.above
  WHERE climb.agent IS NULL AND step < 64
),
lanes AS (
  SELECT trace_id, span_id, arg_min(agent, step) FILTER (agent IS NOT NULL) AS lane FROM climb GROUP BY ALL
),
kinds AS (
  SELECT spans.*, coalesce(lanes.lane, '') AS lane,
    nullif(regexp_extract(name, '^(?:transfer|hand_?off|delegate)_to_(\w+)$', 1), '') AS addressee
  FROM spans JOIN lanes USING (trace_id, span_id)
),
judged AS (
  SELECT *, unnest(json_keys(evaluations)) AS label FROM kinds WHERE json_type(evaluations) = 'OBJECT'
)
SELECT
  trace_id AS run_id,
  CASE
    WHEN sort = 'tool' AND addressee IS NOT NULL THEN 'handoff'
    WHEN sort IN ('tool', 'agent') THEN sort
    WHEN sort IN ('llm', 'embedding') THEN 'model'
    ELSE 'log'
  END AS kind,
  lane AS agent,
  CASE WHEN sort IN ('tool', 'agent') THEN name ELSE '' END AS tool,
  CASE WHEN sort = 'tool' THEN addressee END AS target,
  NULL AS outcome,
  CASE WHEN sort = 'tool' THEN coalesce(input ->> 'value', input ->> 'parameters', input ->> '$') END AS args,
  CASE WHEN sort = 'tool' THEN
    coalesce(output ->> 'value', nullif(output ->> '$', '{}'), error ->> 'message', nullif(status_message, '')) END AS result,
  CASE WHEN status = 'error' OR error ->> 'type' <> '' THEN coalesce(nullif(error ->> 'type', ''), 'unknown') END AS error_class,
  try(make_timestamp(began // 1000)::TIMESTAMPTZ) AS at,
  try(make_timestamp((began + lasted) // 1000)::TIMESTAMPTZ) AS ended_at,
  lasted IS NULL AS open,
  session,
  coalesce(model, metadata ->> 'model_name') AS model,
  CASE WHEN sort = 'llm' THEN try_cast(try_cast(metrics ->> 'input_tokens' AS DOUBLE) AS BIGINT) END AS tokens_in,
  CASE WHEN sort = 'llm' THEN try_cast(try_cast(metrics ->> 'output_tokens' AS DOUBLE) AS BIGINT) END AS tokens_out,
  app AS workflow,
  trace_id, span_id, parent_span_id
FROM kinds
UNION ALL BY NAME
SELECT
  trace_id AS run_id,
  'verdict' AS kind,
  lane AS agent,
  '' AS tool,
  label AS target,
  CASE lower(evaluations -> label ->> 'assessment') WHEN 'pass' THEN 'passed' WHEN 'fail' THEN 'failed' ELSE 'unknown' END AS outcome,
  false AS open,
  trace_id,
  span_id AS parent_span_id
FROM judged
ORDER BY run_id, "at" NULLS LAST, span_id, target
