-- Google ADK: a session with its events, or events one a line, as JSON, in snake_case or camelCase.
--
-- A function call and its response are one action, in the lane of their author. Transfers are handoffs;
-- confirmations are approvals and credentials are waits; a call that runs on after its first response is waited
-- for. A call without an id is paired with the response of the same name and the same number.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH document AS (
  SELECT json, row_number() OVER () AS number FROM read_json_objects(getvariable('source'), maximum_object_size = 1073741824)
),
unfolded AS (
  SELECT number, json, unnest(CASE WHEN json_type(json -> 'events') = 'ARRAY' THEN (json -> '$.events[*]') ELSE [json] END) AS event,
    CASE WHEN json_type(json -> 'events') = 'ARRAY' THEN json ->> 'id' END AS session,
    coalesce(json ->> 'app_name', json ->> 'appName') AS app
  FROM document
),
events AS (
  SELECT
    row_number() OVER () AS nth,
    coalesce(
      session, event ->> 'session_id', event ->> 'sessionId', regexp_replace(parse_filename(getvariable('name')), '\.[a-z]+$', '')
    ) AS run_id,
    app,
    event ->> 'id' AS id,
    coalesce(event ->> 'author', '') AS author,
    try_cast(event ->> 'timestamp' AS DOUBLE) AS told_at,
    coalesce(event -> '$.content.parts[*]', []) AS parts,
    event -> 'actions' AS actions,
    coalesce(event -> 'long_running_tool_ids', event -> 'longRunningToolIds') AS running,
    coalesce(event ->> 'error_code', event ->> 'errorCode') AS error,
    coalesce(event -> 'usage_metadata', event -> 'usageMetadata') AS used,
    coalesce(event ->> 'model_version', event ->> 'modelVersion') AS model,
    coalesce(event ->> 'branch', '') AS branch,
    coalesce(event ->> 'partial', 'false') = 'true' AS said_in_part
  FROM unfolded
),
placed AS (
  SELECT *, try(make_timestamp((round(told_at * 1e6))::BIGINT)::TIMESTAMPTZ) AS told,
    -- the agent of a branch below another stands behind it: outer.inner
    nullif(regexp_extract(branch, '([^.]+)\.[^.]+$', 1), '') AS parent_agent,
    -- a turn is a turn in the lane of the agent that answers it
    first_value(nullif(author, 'user') IGNORE NULLS) OVER (
      PARTITION BY run_id ORDER BY nth ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS answers_it,
    last_value(nullif(author, 'user') IGNORE NULLS) OVER (
      PARTITION BY run_id ORDER BY nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS acted_before,
    nth = max(nth) OVER (PARTITION BY run_id) AS is_last
  FROM events
),
pieces AS (
  SELECT * EXCLUDE (parts), unnest(parts) AS part, generate_subscripts(parts, 1) AS place FROM placed
),
functions AS (
  SELECT *,
    coalesce(part -> 'function_call', part -> 'functionCall') AS asked,
    coalesce(part -> 'function_response', part -> 'functionResponse') AS answer
  FROM pieces
),
calls AS (
  SELECT *, asked ->> 'name' AS name,
    coalesce(asked ->> 'id', (asked ->> 'name') || '#' || row_number() OVER (
      PARTITION BY run_id, asked ->> 'name', asked ->> 'id' IS NULL ORDER BY nth, place)) AS call_id
  FROM functions WHERE json_type(asked) = 'OBJECT'
),
answers AS (
  SELECT *, coalesce(answer ->> 'id', (answer ->> 'name') || '#' || row_number() OVER (
      PARTITION BY run_id, answer ->> 'name', answer ->> 'id' IS NULL ORDER BY nth, place)) AS call_id
  FROM functions WHERE json_type(answer) = 'OBJECT'
),
answered AS (
  SELECT run_id, call_id, count(*) AS answers, arg_max(answer -> 'response', nth) AS response,
    arg_max(told, nth) AS told, bool_or(author = 'user') AS by_person
  FROM answers GROUP BY ALL
),
paired AS (
  SELECT calls.*, response, answers, by_person, answered.told AS ended,
    coalesce(list_contains(running ->> '$[*]', asked ->> 'id'), false) AS runs_on,
    CASE
      WHEN name IN ('adk_request_confirmation') THEN 'approval'
      WHEN name IN ('adk_request_credential', 'adk_request_input') THEN 'wait'
      WHEN name = 'transfer_to_agent' OR regexp_matches(name, '^(transfer|hand_?off|delegate)_to_\w+$') THEN 'handoff'
      ELSE 'tool'
    END AS sort
  FROM calls LEFT JOIN answered USING (run_id, call_id)
),
told AS (
  SELECT
    nth, place AS part, run_id, sort AS kind, author AS agent, name AS tool,
    CASE sort
      WHEN 'handoff' THEN coalesce(asked ->> '$.args.agent_name', asked ->> '$.args.agentName', regexp_extract(name, '_to_(\w+)$', 1))
      WHEN 'approval' THEN coalesce(asked ->> '$.args.originalFunctionCall.name', asked ->> '$.args.original_function_call.name')
      WHEN 'wait' THEN replace(name, 'adk_request_', '')
    END AS target,
    asked ->> 'args' AS args,
    -- what a call that runs on says first is that it runs
    CASE WHEN runs_on AND coalesce(answers, 0) < 2 THEN NULL ELSE response ->> '$' END AS result,
    CASE WHEN (response ->> 'error') <> '' THEN 'tool_error' END AS error_class,
    told AS at,
    CASE WHEN runs_on AND answers < 2 THEN NULL ELSE ended END AS ended_at,
    coalesce(answers, 0) = 0 OR (runs_on AND answers < 2) AS open,
    by_person AND sort IN ('approval', 'wait') AS external_input,
    call_id, parent_agent, app AS workflow
  FROM paired
  UNION ALL BY NAME
  SELECT nth, place AS part, run_id, 'wait' AS kind, author AS agent, name AS tool, name AS target, told AS at,
    CASE WHEN answers > 1 THEN ended END AS ended_at, coalesce(answers, 0) < 2 AS open, call_id, parent_agent, app AS workflow
  FROM paired WHERE runs_on AND sort = 'tool'
  UNION ALL BY NAME
  SELECT nth, 0 AS part, run_id, 'message' AS kind, coalesce(answers_it, '') AS agent, 'user' AS tool, told AS at, true AS external_input,
    id AS span_id, app AS workflow
  FROM placed
  WHERE author = 'user' AND len(list_filter(parts, lambda part: part ->> 'text' <> '')) > 0
  UNION ALL BY NAME
  SELECT nth, 0 AS part, run_id, 'model' AS kind, author AS agent, '' AS tool, told AS at, error AS error_class, model,
    try_cast(coalesce(used ->> 'prompt_token_count', used ->> 'promptTokenCount') AS BIGINT) AS tokens_in,
    try_cast(coalesce(used ->> 'candidates_token_count', used ->> 'candidatesTokenCount') AS BIGINT) AS tokens_out,
    id AS span_id, parent_agent, app AS workflow
  FROM placed
  WHERE author <> 'user' AND (json_type(used) = 'OBJECT' OR error IS NOT NULL)
  UNION ALL BY NAME
  SELECT nth, 1000000 AS part, run_id, 'reset' AS kind,
    coalesce(nullif(author, 'user'), acted_before, answers_it, '') AS agent, 'rewind' AS tool, told AS at,
    coalesce(actions ->> 'rewind_before_invocation_id', actions ->> 'rewindBeforeInvocationId') AS target, app AS workflow
  FROM placed
  WHERE coalesce(actions ->> 'rewind_before_invocation_id', actions ->> 'rewindBeforeInvocationId') <> ''
  UNION ALL BY NAME
  SELECT nth, 1000001 AS part, run_id, 'compaction' AS kind, author AS agent, 'compaction' AS tool, told AS at, app AS workflow
  FROM placed WHERE json_type(actions -> 'compaction') = 'OBJECT'
  UNION ALL BY NAME
  SELECT nth, 1000002 AS part, run_id, 'claim' AS kind, author AS agent, 'end_of_agent' AS tool, told AS at,
    'success' AS target, parent_agent, app AS workflow
  FROM placed WHERE coalesce(actions ->> 'end_of_agent', actions ->> 'endOfAgent') = 'true'
  UNION ALL BY NAME
  -- the agent's last words, where nothing was left to do
  SELECT nth, 1000003 AS part, run_id, 'claim' AS kind, author AS agent, 'final_message' AS tool, told AS at,
    'success' AS target, parent_agent, app AS workflow
  FROM placed
  WHERE is_last AND author NOT IN ('user', '') AND error IS NULL AND NOT said_in_part
    AND coalesce(actions ->> 'end_of_agent', actions ->> 'endOfAgent', 'false') <> 'true'
    AND len(list_filter(parts, lambda part: trim(part ->> 'text') <> '' AND coalesce(part ->> 'thought', 'false') <> 'true')) > 0
    AND len(list_filter(parts, lambda part: coalesce(
      part -> 'function_call', part -> 'functionCall', part -> 'function_response', part -> 'functionResponse') IS NOT NULL)) = 0
)
SELECT * EXCLUDE (nth, part) FROM told ORDER BY nth, part, kind
