-- Cline and Roo: the ui_messages.json of one task.
--
-- What was asked of a person or said to one, with the tools in it. Only commands show what came back, so the other
-- tools have no result here: where there is an api_conversation_history.json, read that as it stands. Drafts
-- (partial) are left out; a checkpoint that was checked out is a reset; a completion is a claim.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH document AS (
  SELECT *, row_number() OVER () AS nth FROM read_json(
    getvariable('source'), maximum_object_size = 1073741824,
    columns = {
      ts: 'BIGINT', type: 'VARCHAR', ask: 'VARCHAR', say: 'VARCHAR', text: 'VARCHAR', partial: 'BOOLEAN',
      lastCheckpointHash: 'VARCHAR', isCheckpointCheckedOut: 'BOOLEAN', conversationHistoryDeletedRange: 'JSON'
    }
  )
),
said AS (
  SELECT nth, text, lastCheckpointHash AS hash, coalesce(isCheckpointCheckedOut, false) AS checked_out,
    coalesce(ask, say) AS sort, type = 'ask' AS asks,
    try(make_timestamp(ts * 1000)::TIMESTAMPTZ) AS told,
    try_cast(text AS JSON) AS about,
    -- the folder of a task is called by its id; the file's own name is always the same
    'task-' || coalesce(min(ts) OVER ()::VARCHAR, '0') AS run_id
  FROM document
  WHERE NOT coalesce(partial, false)
),
numbered AS (
  SELECT *, count(*) FILTER (sort = 'command') OVER (ORDER BY nth) AS command FROM said
),
outputs AS (
  SELECT command, string_agg(text, chr(10) ORDER BY nth) AS output, max(told) AS told
  FROM numbered WHERE sort = 'command_output' AND command > 0 GROUP BY command
),
told AS (
  SELECT nth, run_id, 'tool' AS kind, 'execute_command' AS tool, text AS args, output AS result, numbered.told AS at,
    outputs.told AS ended_at, output IS NULL AS open
  FROM numbered LEFT JOIN outputs USING (command) WHERE sort = 'command'
  UNION ALL BY NAME
  SELECT nth, run_id, 'tool' AS kind, coalesce(about ->> 'tool', about ->> 'toolName', sort) AS tool,
    coalesce(about ->> 'arguments', text) AS args, told AS at
  FROM numbered WHERE sort IN ('tool', 'use_mcp_server', 'browser_action')
  UNION ALL BY NAME
  SELECT nth, run_id, 'model' AS kind, '' AS tool, told AS at, try_cast(about ->> 'tokensIn' AS BIGINT) AS tokens_in,
    try_cast(about ->> 'tokensOut' AS BIGINT) AS tokens_out, try_cast(about ->> 'cost' AS DOUBLE) AS cost_usd
  FROM numbered WHERE sort = 'api_req_started'
  UNION ALL BY NAME
  SELECT nth, run_id, 'retry' AS kind, '' AS tool, told AS at FROM numbered WHERE sort IN ('api_req_retried', 'api_req_retry_delayed')
  UNION ALL BY NAME
  SELECT nth, run_id, 'message' AS kind, 'user' AS tool, true AS external_input, told AS at
  FROM numbered WHERE sort IN ('task', 'user_feedback', 'user_feedback_diff') OR (sort = 'text' AND nth = 1)
  UNION ALL BY NAME
  SELECT nth, run_id, 'wait' AS kind, sort AS tool, 'user' AS target, told AS at FROM numbered WHERE asks AND sort = 'followup'
  UNION ALL BY NAME
  SELECT nth, run_id, 'checkpoint' AS kind, '' AS tool, hash AS target, told AS at FROM numbered WHERE hash IS NOT NULL
  UNION ALL BY NAME
  SELECT nth, run_id, 'reset' AS kind, 'checkpoint' AS tool, hash AS target, told AS at FROM numbered WHERE checked_out
  UNION ALL BY NAME
  SELECT nth, run_id, 'compaction' AS kind, 'condense' AS tool, told AS at FROM numbered WHERE sort = 'condense_context'
  UNION ALL BY NAME
  SELECT nth, run_id, 'claim' AS kind, 'attempt_completion' AS tool, 'success' AS target, told AS at
  FROM numbered WHERE sort = 'completion_result' AND NOT asks
)
SELECT * EXCLUDE (nth) FROM told ORDER BY nth, kind
