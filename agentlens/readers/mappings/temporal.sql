-- Temporal: a workflow history ({"events": [...]}) as the command line or the web interface writes it, both
-- spellings of the event types.
--
-- An activity is one call; of its attempts the history keeps the number of the last and why the one before failed,
-- with the policy. Child workflows and Nexus operations are handoffs, signals and updates come from outside, timers
-- are waits. That a workflow completed is a claim.
-- Proved on: made-up rows of the documented columns; no public export is known.
WITH document AS (
  SELECT json FROM read_json_objects(getvariable('source'), maximum_object_size = 1073741824)
),
unfolded AS (
  SELECT unnest(coalesce(
      nullif(json -> '$.events[*]', []), nullif(json -> '$.history.events[*]', []), nullif(json -> '$.historyEvents[*]', []), [json]
    )) AS event,
    coalesce(json ->> '$.workflowExecutionInfo.execution.runId', json ->> '$.execution.runId') AS run
  FROM document
),
events AS (
  SELECT
    try_cast(event ->> 'eventId' AS BIGINT) AS id,
    try_cast(event ->> 'eventTime' AS TIMESTAMPTZ) AS told,
    upper(replace(replace(event ->> 'eventType', 'EVENT_TYPE_', ''), '_', '')) AS type,
    event -> list_filter(json_keys(event), lambda name: name LIKE '%EventAttributes')[1] AS about,
    run
  FROM unfolded WHERE event ->> 'eventType' IS NOT NULL
),
names AS (
  SELECT coalesce(
      max(about ->> 'newRunId') FILTER (type = 'WORKFLOWTASKFAILED'), max(run), max(about ->> 'originalExecutionRunId'),
      max(about ->> 'firstExecutionRunId'), regexp_replace(parse_filename(getvariable('name')), '\.[a-z]+$', '')
    ) AS run_id,
    max(about -> 'workflowType' ->> 'name') FILTER (type = 'WORKFLOWEXECUTIONSTARTED') AS workflow,
    max(about -> 'parentWorkflowExecution' ->> 'runId') FILTER (type = 'WORKFLOWEXECUTIONSTARTED') AS parent_run_id
  FROM events
),
scheduled AS (
  SELECT *,
    CASE type WHEN 'ACTIVITYTASKSCHEDULED' THEN 'tool' ELSE 'handoff' END AS kind,
    CASE type
      WHEN 'ACTIVITYTASKSCHEDULED' THEN about -> 'activityType' ->> 'name'
      WHEN 'NEXUSOPERATIONSCHEDULED' THEN 'nexus'
      ELSE 'child_workflow'
    END AS tool,
    CASE type
      WHEN 'NEXUSOPERATIONSCHEDULED' THEN concat_ws('/', about ->> 'service', about ->> 'operation')
      WHEN 'STARTCHILDWORKFLOWEXECUTIONINITIATED' THEN about -> 'workflowType' ->> 'name'
    END AS target,
    about -> 'retryPolicy' AS policy,
    -- payloads are base64 of JSON; what is not is compared as it stands
    list_transform(about ->> '$.input.payloads[*].data', lambda data: coalesce(try(decode(from_base64(data))), data)) AS given
  FROM events
  WHERE type IN ('ACTIVITYTASKSCHEDULED', 'NEXUSOPERATIONSCHEDULED', 'STARTCHILDWORKFLOWEXECUTIONINITIATED')
),
progress AS (
  SELECT *, try_cast(coalesce(about ->> 'scheduledEventId', about ->> 'initiatedEventId') AS BIGINT) AS call
  FROM events WHERE regexp_matches(type, '^(ACTIVITYTASK|NEXUSOPERATION|CHILDWORKFLOWEXECUTION|STARTCHILDWORKFLOWEXECUTION)')
),
started AS (
  SELECT call, arg_max(about, id) AS about, arg_min(told, id) AS told
  FROM progress WHERE type LIKE '%STARTED' GROUP BY ALL
),
ended AS (
  SELECT call, arg_min(about, id) AS about, arg_min(told, id) AS told, arg_min(type, id) AS type
  FROM progress WHERE regexp_matches(type, '(COMPLETED|FAILED|TIMEDOUT|CANCELED|TERMINATED)$') GROUP BY ALL
),
calls AS (
  SELECT scheduled.*, started.about AS start, started.told AS began, ended.about AS finish, ended.told AS done, ended.type AS finish_type,
    coalesce(
      ended.about -> 'failure' -> 'applicationFailureInfo' ->> 'type',
      ended.about -> 'failure' -> 'cause' -> 'applicationFailureInfo' ->> 'type',
      ended.about -> 'failure' -> 'timeoutFailureInfo' ->> 'timeoutType',
      CASE WHEN ended.type LIKE '%COMPLETED' OR ended.type IS NULL THEN NULL
        WHEN ended.type LIKE '%TIMEDOUT' THEN 'timeout' WHEN ended.type LIKE '%CANCELED' THEN 'cancelled' ELSE 'unknown' END
    ) AS error,
    try_cast(started.about ->> 'attempt' AS BIGINT) AS attempt
  FROM scheduled
  LEFT JOIN started ON started.call = scheduled.id
  LEFT JOIN ended ON ended.call = scheduled.id
),
told AS (
  SELECT
    id AS nth, kind, tool, target,
    to_json(given)::VARCHAR AS args,
    CASE WHEN finish_type LIKE '%COMPLETED' THEN to_json(list_transform(
      coalesce(nullif(finish ->> '$.result.payloads[*].data', []), [finish -> 'result' ->> 'data']),
      lambda data: coalesce(try(decode(from_base64(data))), data)))::VARCHAR
      ELSE finish -> 'failure' ->> 'message' END AS result,
    error AS error_class,
    nullif(attempt, 0) AS attempt,
    CASE WHEN json_type(policy) = 'OBJECT' THEN {
      'errors': CASE WHEN (finish -> 'failure' -> 'applicationFailureInfo' ->> 'nonRetryable') = 'true'
        OR list_contains(policy ->> '$.nonRetryableErrorTypes[*]', error) THEN []::VARCHAR[] ELSE ['*'] END,
      'interval_s': try_cast(rtrim(policy ->> 'initialInterval', 's') AS DOUBLE),
      'max_attempts': coalesce(nullif(try_cast(policy ->> 'maximumAttempts' AS BIGINT), 0), 2147483647), -- 0: no limit
      'backoff_rate': coalesce(try_cast(policy ->> 'backoffCoefficient' AS DOUBLE), 2.0),
      'max_delay_s': try_cast(rtrim(policy ->> 'maximumInterval', 's') AS DOUBLE)
    } END AS retry_policy,
    told AS at, done AS ended_at, done IS NULL AS open, id::VARCHAR AS call_id
  FROM calls
  UNION ALL BY NAME
  SELECT id AS nth, 'accept' AS kind, coalesce(target, '') AS agent, tool, began AS at, id::VARCHAR AS call_id
  FROM calls WHERE kind = 'handoff' AND began IS NOT NULL
  UNION ALL BY NAME
  -- attempts before the last are no events of their own
  SELECT id AS nth, 'retry' AS kind, tool, began AS at, attempt - 1 AS attempt, id::VARCHAR AS call_id,
    coalesce(start -> 'lastFailure' -> 'applicationFailureInfo' ->> 'type', start -> 'lastFailure' -> 'timeoutFailureInfo' ->> 'timeoutType', 'unknown') AS error_class
  FROM calls WHERE attempt > 1
  UNION ALL BY NAME
  SELECT timer.id AS nth, 'wait' AS kind, 'timer' AS tool, 'timer' AS target, timer.told AS at, min(gone.told) AS ended_at,
    min(gone.told) IS NULL AS open, timer.id::VARCHAR AS call_id
  FROM events AS timer LEFT JOIN events AS gone
    ON gone.type IN ('TIMERFIRED', 'TIMERCANCELED') AND try_cast(gone.about ->> 'startedEventId' AS BIGINT) = timer.id
  WHERE timer.type = 'TIMERSTARTED' GROUP BY ALL
  UNION ALL BY NAME
  SELECT id AS nth, 'message' AS kind, CASE type WHEN 'WORKFLOWEXECUTIONSIGNALED' THEN 'signal' ELSE 'update' END AS tool,
    true AS external_input, told AS at, 'outside/' || id AS call_id
  FROM events WHERE type IN ('WORKFLOWEXECUTIONSIGNALED', 'WORKFLOWEXECUTIONUPDATEACCEPTED')
  UNION ALL BY NAME
  SELECT id AS nth, 'reset' AS kind, 'reset' AS tool, id::VARCHAR AS target, told AS at, about ->> 'baseRunId' AS parent_run_id
  FROM events WHERE type = 'WORKFLOWTASKFAILED' AND about ->> 'baseRunId' <> ''
  UNION ALL BY NAME
  SELECT id AS nth, 'claim' AS kind, 'workflow' AS tool, CASE WHEN type LIKE '%COMPLETED' THEN 'success' ELSE 'failure' END AS target,
    told AS at, about -> 'failure' -> 'applicationFailureInfo' ->> 'type' AS error_class
  FROM events
  WHERE type IN ('WORKFLOWEXECUTIONCOMPLETED', 'WORKFLOWEXECUTIONFAILED', 'WORKFLOWEXECUTIONTIMEDOUT', 'WORKFLOWEXECUTIONTERMINATED', 'WORKFLOWEXECUTIONCANCELED')
)
SELECT names.run_id, names.workflow, told.* EXCLUDE (nth) REPLACE (coalesce(told.parent_run_id, names.parent_run_id) AS parent_run_id)
FROM told CROSS JOIN names
ORDER BY nth, kind
