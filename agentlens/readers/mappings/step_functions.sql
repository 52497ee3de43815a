-- AWS Step Functions: an execution history ({"events": [...]}), or events one a line as the log group has them.
--
-- Each task that was scheduled is one call, named by its state; the repetitions of one entry into a state are its
-- attempts (the retry policy is in the definition, not here: declare it with --policies). Starting another execution
-- is a handoff. That an execution succeeded is a claim, no verdict.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH RECURSIVE document AS (
  SELECT json FROM read_json_objects(getvariable('source'), maximum_object_size = 1073741824)
),
unfolded AS (
  SELECT unnest(CASE WHEN json_type(json -> 'events') = 'ARRAY' THEN (json -> '$.events[*]') ELSE [json] END) AS event,
    coalesce(json ->> 'executionArn', json ->> 'execution_arn') AS arn
  FROM document
),
read AS (
  SELECT
    coalesce(
      event ->> 'execution_arn', arn, regexp_replace(parse_filename(getvariable('name')), '\.[a-z]+$', '')
    ) AS run_id,
    try_cast(event ->> 'id' AS BIGINT) AS id,
    try_cast(coalesce(event ->> 'previousEventId', event ->> 'previous_event_id') AS BIGINT) AS above,
    event ->> 'type' AS type,
    coalesce(event ->> 'timestamp', event ->> 'event_timestamp') AS stamp,
    event ->> 'event_timestamp' IS NOT NULL AS milliseconds,
    -- the one member that ends in Details, whichever type of event it is
    coalesce(event -> 'details', event -> list_filter(json_keys(event), lambda name: name LIKE '%Details')[1]) AS about
  FROM unfolded
),
events AS (
  SELECT *,
    CASE WHEN milliseconds THEN try(make_timestamp(stamp::BIGINT * 1000)::TIMESTAMPTZ) ELSE coalesce(
      try_cast(stamp AS TIMESTAMPTZ), try(make_timestamp((round(stamp::DOUBLE * 1e6))::BIGINT)::TIMESTAMPTZ)) END AS told,
    regexp_matches(type, '^(Task|LambdaFunction|Activity)Scheduled$') AS begins,
    regexp_matches(type, '^(Task|LambdaFunction|Activity)(Succeeded|Failed|TimedOut|ScheduleFailed|StartFailed|SubmitFailed)$') AS ends
  FROM read WHERE id IS NOT NULL AND type IS NOT NULL
),
climb(run_id, id, entry, call, above, step) AS (
  SELECT run_id, id, NULL::BIGINT, NULL::BIGINT, above, 0 FROM events
  UNION ALL
  SELECT climb.run_id, climb.id,
    coalesce(climb.entry, CASE WHEN events.type LIKE '%StateEntered' THEN events.id END),
    coalesce(climb.call, CASE WHEN events.begins AND climb.entry IS NULL THEN events.id END),
    events.above, step + 1
  FROM climb JOIN events ON events.run_id = climb.run_id AND events.id = climb.above
  WHERE climb.entry IS NULL AND step < 400
),
places AS (
  SELECT run_id, id, max(entry) AS entry, max(call) AS call FROM climb GROUP BY ALL
),
walked AS (
  SELECT events.*, places.entry, places.call, entered.about ->> 'name' AS state
  FROM events JOIN places USING (run_id, id)
  LEFT JOIN events AS entered ON entered.run_id = events.run_id AND entered.id = places.entry
),
finished AS (
  SELECT run_id, call, arg_min(told, id) AS told, arg_min(about, id) AS about, arg_min(type, id) AS type
  FROM walked WHERE ends AND call IS NOT NULL GROUP BY ALL
),
calls AS (
  SELECT scheduled.*, finished.told AS ended, finished.type AS end_type, finished.about AS outcome,
    row_number() OVER (PARTITION BY scheduled.run_id, scheduled.entry ORDER BY scheduled.id) AS attempt,
    coalesce(scheduled.about ->> 'resource', '') AS resource,
    coalesce(scheduled.about ->> 'parameters', scheduled.about ->> 'input') AS given
  FROM walked AS scheduled LEFT JOIN finished ON finished.run_id = scheduled.run_id AND finished.call = scheduled.id
  WHERE scheduled.begins
),
told AS (
  SELECT
    run_id, id AS nth,
    CASE WHEN resource LIKE 'startExecution%' THEN 'handoff' ELSE 'tool' END AS kind,
    coalesce(state, resource, 'task') AS tool,
    CASE WHEN resource LIKE 'startExecution%' THEN
      regexp_extract(coalesce(try_cast(given AS JSON) ->> 'StateMachineArn', ''), '([^:]+)$', 1) END AS target,
    given AS args,
    outcome ->> 'output' AS result,
    CASE WHEN end_type LIKE '%Succeeded' OR end_type IS NULL THEN NULL
      ELSE coalesce(nullif(outcome ->> 'error', ''), CASE WHEN end_type LIKE '%TimedOut' THEN 'States.Timeout' ELSE 'unknown' END) END AS error_class,
    CASE WHEN entry IS NOT NULL THEN attempt END AS attempt,
    told AS at, ended AS ended_at, ended IS NULL AS open, id::VARCHAR AS call_id
  FROM calls
  UNION ALL BY NAME
  -- the task waits for whoever holds its token
  SELECT run_id, id AS nth, 'wait' AS kind, coalesce(state, 'task') AS tool, 'task_token' AS target, told AS at, ended AS ended_at,
    ended IS NULL AS open, id::VARCHAR AS call_id
  FROM calls WHERE resource LIKE '%.waitForTaskToken'
  UNION ALL BY NAME
  SELECT entered.run_id, entered.id AS nth, 'wait' AS kind, entered.about ->> 'name' AS tool, 'timer' AS target,
    entered.told AS at, min(gone.told) AS ended_at, min(gone.told) IS NULL AS open, entered.id::VARCHAR AS call_id
  FROM events AS entered LEFT JOIN walked AS gone
    ON gone.run_id = entered.run_id AND gone.entry = entered.id AND gone.type = 'WaitStateExited'
  WHERE entered.type = 'WaitStateEntered' GROUP BY ALL
  UNION ALL BY NAME
  SELECT walked.run_id, walked.id AS nth, 'accept' AS kind,
    coalesce(regexp_extract(coalesce(try_cast(calls.given AS JSON) ->> 'StateMachineArn', ''), '([^:]+)$', 1), '') AS agent,
    coalesce(walked.state, '') AS tool, walked.told AS at, calls.id::VARCHAR AS call_id
  FROM walked JOIN calls ON calls.run_id = walked.run_id AND calls.id = walked.call
  WHERE walked.type = 'TaskSubmitted' AND calls.resource LIKE 'startExecution%'
  UNION ALL BY NAME
  SELECT run_id, id AS nth, 'claim' AS kind, 'execution' AS tool,
    CASE type WHEN 'ExecutionSucceeded' THEN 'success' ELSE 'failure' END AS target, told AS at,
    nullif(about ->> 'error', '') AS error_class
  FROM events WHERE type IN ('ExecutionSucceeded', 'ExecutionFailed', 'ExecutionTimedOut', 'ExecutionAborted')
)
SELECT * EXCLUDE (nth) FROM told ORDER BY run_id, nth, kind
