-- Outcomes kept beside the traces as a table: run_id, label, value, source (CSV).
--
-- Each becomes a verdict of the run of that id. Only what something outside the agent says counts: rows of the
-- agent's own word (agent_self) are left out, and so are step rows and labels that are no outcome. A value that is
-- neither yes nor no (none, a share between 0 and 1) is an unknown outcome, not a failure.
WITH told AS (
  SELECT run_id, lower(label) AS label, lower(trim(value)) AS said, source
  FROM read_csv(getvariable('source'), header = true, all_varchar = true)
  WHERE coalesce(step, '') = '' AND coalesce(level, 'run') = 'run' AND coalesce(source, '') <> 'agent_self'
)
SELECT
  run_id,
  'verdict' AS kind,
  CASE
    WHEN said IN ('true', 'yes', 'passed', 'pass', 'resolved', 'success') OR try_cast(said AS DOUBLE) >= 1 THEN 'passed'
    WHEN said IN ('false', 'no', 'failed', 'fail', 'unresolved', 'failure') OR try_cast(said AS DOUBLE) <= 0 THEN 'failed'
    ELSE 'unknown'
  END AS outcome,
  coalesce(source, 'table') || ':' || label AS target
FROM told
WHERE label IN ('resolved', 'is_resolved', 'outcome', 'outcome_correct', 'passed', 'success', 'reward', 'max_reward', 'score')
