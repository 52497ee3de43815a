-- InterCode result files: one object a file, keyed by run number.
--
-- Each action is a call of the one tool there is, the environment; what it printed is the evidence. The agent
-- never saw the step rewards, so no action carries one: the best of them is the verdict of the run, and a log row
-- of the tool 'best_reward' names, as its target, the step that first reached it.
-- Proved on: 7,201 runs of InterCode, and made-up files.
WITH document AS (
  SELECT runs FROM read_json(
    getvariable('source'),
    format = 'unstructured', records = false, maximum_object_size = 1073741824,
    columns = {
      runs: 'MAP(VARCHAR, STRUCT(
        environment VARCHAR, dataset VARCHAR, task_id VARCHAR,
        turn_history STRUCT(actions VARCHAR[], observations VARCHAR[], rewards DOUBLE[]),
        summary STRUCT(max_reward DOUBLE)
      ))'
    }
  )
),
entries AS (
  SELECT unnest(map_entries(runs)) AS entry, parse_filename(getvariable('name')) AS file FROM document
),
runs AS (
  SELECT entry.key AS number, entry.value AS run, file FROM entries
),
named AS (
  SELECT
    replace(run.environment, 'ic_', '') || '/' || file || '#' || number AS run_id,
    'intercode-' || replace(run.environment, 'ic_', '') AS workflow,
    nullif(regexp_extract(file, '(?:multiturn_)?([a-z0-9.-]+)_\d+_turns', 1), 'react') AS model,
    parse_filename(run.dataset) || '#' || run.task_id AS task_group,
    run.turn_history.actions AS actions,
    run.turn_history.observations AS observations,
    run.turn_history.rewards AS rewards,
    run.summary.max_reward AS reward
  FROM runs
),
steps AS (
  SELECT run_id, workflow, model, task_group, observations,
    unnest(actions) AS action, generate_subscripts(actions, 1) AS step
  FROM named
)
SELECT
  run_id,
  'tool' AS kind,
  step - 1 AS seq,
  'env' AS tool,
  action AS args,
  observations[step] AS result,
  NULL AS outcome,
  NULL AS target,
  workflow, model, task_group
FROM steps
UNION ALL
SELECT
  run_id,
  'verdict' AS kind,
  NULL AS seq,
  'intercode' AS tool,
  NULL AS args,
  NULL AS result,
  CASE WHEN reward >= 1 THEN 'passed' ELSE 'failed' END AS outcome,
  'intercode' AS target,
  workflow, model, task_group
FROM named
WHERE reward IS NOT NULL
UNION ALL
SELECT
  run_id,
  'log' AS kind,
  NULL AS seq,
  'best_reward' AS tool,
  NULL AS args,
  NULL AS result,
  NULL AS outcome,
  (list_position(rewards, list_max(rewards)) - 1)::VARCHAR AS target,
  workflow, model, task_group
FROM named
WHERE len(rewards) > 0
