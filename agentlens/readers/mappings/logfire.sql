-- Logfire: rows of `records` or `records_all`, as JSON (lines or an array). For CSV or Parquet replace read_json
-- by read_csv(getvariable('source'), all_varchar = true) or read_parquet(getvariable('source')).
--
-- A pending row is left out where its span has ended; where it never did, it is the open call. A span without an
-- agent's name belongs to the nearest span above that has one.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH RECURSIVE document AS (
  SELECT * FROM read_json(
    getvariable('source'), maximum_object_size = 1073741824,
    columns = {
      trace_id: 'VARCHAR', span_id: 'VARCHAR', parent_span_id: 'VARCHAR', kind: 'VARCHAR', span_name: 'VARCHAR',
      message: 'VARCHAR', start_timestamp: 'VARCHAR', end_timestamp: 'VARCHAR', otel_status_code: 'VARCHAR',
      otel_status_message: 'VARCHAR', is_exception: 'VARCHAR', exception_type: 'VARCHAR', attributes: 'JSON',
      service_name: 'VARCHAR', service_version: 'VARCHAR'
    }
  )
),
told AS (
  SELECT * REPLACE (
    CASE WHEN json_type(attributes) = 'VARCHAR' THEN try_cast(attributes ->> '$' AS JSON) ELSE attributes END AS attributes
  )
  FROM document
  WHERE trace_id IS NOT NULL AND span_id IS NOT NULL AND coalesce(kind, 'span') IN ('span', 'pending_span')
),
ended AS (
  SELECT * FROM told WHERE coalesce(kind, 'span') = 'span'
),
begun AS (
  -- a pending row stands below the span that it announces
  SELECT * REPLACE (
    parent_span_id AS span_id,
    nullif(attributes ->> 'logfire.pending_parent_id', '0000000000000000') AS parent_span_id,
    NULL AS end_timestamp
  )
  FROM told
  WHERE kind = 'pending_span' AND (trace_id, parent_span_id) NOT IN (SELECT (trace_id, span_id) FROM ended)
),
spans AS (
  SELECT
    trace_id, span_id, nullif(parent_span_id, '') AS parent_span_id, start_timestamp, end_timestamp, attributes,
    service_name, service_version, otel_status_message,
    attributes ->> 'gen_ai.operation.name' AS operation,
    coalesce(
      attributes ->> 'gen_ai.tool.name', regexp_extract(span_name, '^(?:execute_tool|running tool:?) +(.+)$', 1)
    ) AS tool,
    coalesce(attributes ->> 'gen_ai.agent.name', attributes ->> 'agent_name') AS agent,
    CASE
      WHEN exception_type <> '' THEN exception_type
      WHEN otel_status_code = 'ERROR' OR lower(is_exception) = 'true' THEN coalesce(attributes ->> 'error.type', 'unknown')
    END AS error,
    span_name
  FROM (FROM ended UNION ALL BY NAME FROM begun)
),
climb(trace_id, span_id, agent, above, step) AS (
  SELECT trace_id, span_id, agent, parent_span_id, 0 FROM spans
  UNION ALL
  SELECT climb.trace_id, climb.span_id, spans.agent, spans.parent_span_id, step + 1
  FROM climb JOIN spans ON spans.trace_id = climb.trace_id AND spans.span_id = climb.above
  WHERE climb.agent IS NULL AND step < 64
),
lanes AS (
  SELECT trace_id, span_id, arg_min(agent, step) FILTER (agent IS NOT NULL) AS lane FROM climb GROUP BY ALL
),
kinds AS (
  SELECT spans.*, lanes.lane,
    nullif(regexp_extract(tool, '^(?:transfer|hand_?off|delegate)_to_(\w+)$', 1), '') AS addressee,
    CASE
      WHEN operation = 'execute_tool' OR tool <> '' THEN 'tool'
      WHEN operation IN ('chat', 'generate_content', 'text_completion', 'embeddings') THEN 'model'
      WHEN operation = 'invoke_agent' OR span_name IN ('agent run', 'invoke_agent') THEN 'agent'
      ELSE 'log'
    END AS sort
  FROM spans JOIN lanes USING (trace_id, span_id)
)
SELECT
  trace_id AS run_id,
  CASE WHEN sort = 'tool' AND addressee IS NOT NULL THEN 'handoff' ELSE sort END AS kind,
  coalesce(lane, '') AS agent,
  CASE sort WHEN 'tool' THEN tool WHEN 'agent' THEN coalesce(lane, '') ELSE '' END AS tool,
  addressee AS target,
  CASE WHEN sort = 'tool' THEN
    coalesce(attributes ->> 'gen_ai.tool.call.arguments', attributes ->> 'tool_arguments') END AS args,
  CASE WHEN sort = 'tool' THEN coalesce(
    attributes ->> 'gen_ai.tool.call.result', attributes ->> 'tool_response',
    CASE WHEN error IS NOT NULL THEN otel_status_message END) END AS result,
  error AS error_class,
  try_cast(start_timestamp AS TIMESTAMPTZ) AS at,
  try_cast(end_timestamp AS TIMESTAMPTZ) AS ended_at,
  end_timestamp IS NULL AS open,
  coalesce(attributes ->> 'gen_ai.conversation.id', attributes ->> 'session.id') AS session,
  coalesce(attributes ->> 'gen_ai.response.model', attributes ->> 'gen_ai.request.model') AS model,
  CASE WHEN sort = 'model' THEN try_cast(attributes ->> 'gen_ai.usage.input_tokens' AS BIGINT) END AS tokens_in,
  CASE WHEN sort = 'model' THEN try_cast(attributes ->> 'gen_ai.usage.output_tokens' AS BIGINT) END AS tokens_out,
  CASE WHEN sort = 'model' THEN try_cast(attributes ->> 'operation.cost' AS DOUBLE) END AS cost_usd,
  service_name AS workflow,
  service_version AS agent_version,
  trace_id, span_id, parent_span_id
FROM kinds
ORDER BY start_timestamp, trace_id, span_id
