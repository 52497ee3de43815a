"""What kind of action a command is, judged by its words and never by what it mentions."""

from __future__ import annotations

import pytest

from tests.normalise.norm import facts, normaliser

RESETS = {
    "git reset --hard HEAD~1": "git_reset_hard",
    "git -C repo reset --hard": "git_reset_hard",
    "cd x && git checkout -- .": "git_checkout_path",
    "git checkout .": "git_checkout_path",
    "git checkout src/app.py": "git_checkout_path",
    "git checkout HEAD~2 src": "git_checkout_path",
    "git restore lib/": "git_checkout_path",
    "git clean -fdx": "git_clean",
    "git stash": "git_stash",
    "git stash -u": "git_stash",
    "git stash drop": "git_stash_drop",
    "git checkout -f main": "git_checkout_force",
    "git push --force origin main": "git_push_force",
    "git branch -D old": "git_branch_delete",
    "rm -rf build": "rm_rf",
    "sudo rm -fr /srv/data": "rm_rf",
    "rm -r -f x": "rm_rf",
    "bash -c 'rm -rf x'": "rm_rf",
    "find . -name '*.pyc' -delete": "find_delete",
    "find . -type d -exec rm -rf {} +": "rm_rf",
    "psql -c 'DROP TABLE users'": "drop_table",
    "mysql -e 'truncate orders;'": "truncate_table",
    "sqlite3 app.db 'DELETE FROM t'": "delete_all_rows",
    "dropdb app": "dropdb",
    "docker volume rm data": "docker_volume_rm",
    "docker compose down -v": "docker_volume_rm",
    "terraform destroy -auto-approve": "terraform_destroy",
    "terraform apply -destroy": "terraform_destroy",
    "kubectl -n prod delete pod x": "kubectl_delete",
    "git stash -m wip": "git_stash",
    "git stash -k -u -m 'wip work'": "git_stash",
    "psql -tAc 'DROP TABLE x'": "drop_table",
    "psql -c'DROP TABLE x'": "drop_table",
    "psql --command='DROP TABLE x'": "drop_table",
    "mysql -uroot -psecret -Ne 'DROP TABLE x'": "drop_table",
    "mysql -e'DROP TABLE x'": "drop_table",
    "mysql --execute='DROP TABLE x'": "drop_table",
    "clickhouse-client --query='DROP TABLE x'": "drop_table",
    "sqlite3 a.db <<EOF\n.mode csv\nDROP TABLE x;\nEOF": "drop_table",
    "docker exec -i db psql -U u <<EOF\nDROP TABLE x;\nEOF": "drop_table",
    "echo 'DROP TABLE x' | psql": "drop_table",
    "rm -rf x; echo 'a": "rm_rf",
}
NO_RESETS = [
    "git commit -m 'rm -rf build; git reset --hard'",
    "echo rm -rf /",
    "grep -rn 'git reset --hard' .",
    "git reset HEAD file.py",
    "git checkout main",
    "git checkout feature/login",
    "git checkout v1.2",
    "git checkout -b fix.py",
    "git restore --staged x.py",
    "git clean -nfd",
    "git stash pop",
    "git stash list",
    "git log --grep='git clean -fd'",
    "rm file.txt",
    "psql -c 'SELECT 1'",
    "sqlite3 app.db 'DELETE FROM t WHERE id = 1'",
    "cat <<EOF > notes\nrm -rf x\nEOF",
    "terraform plan -destroy",
    "kubectl get pods # delete",
    "man git-reset --hard",
    "git stash show -p",
    "git stash show -p -- a",
    "git stash list -p -- a",
    "find . -name '-delete'",
    "rm --help -r",
    "git reset --hard --help",
    "kubectl delete --help",
    "terraform destroy -help",
    "bash -n -c 'rm -rf x'",
    "echo 'DROP TABLE x' | grep psql",
    "echo 'DROP TABLE x' | psql -f other.sql",
    "psql -h host -d 'DROP TABLE x'",
    "git commit -m 'rm -rf x",
]


@pytest.mark.parametrize(("command", "name"), RESETS.items())
def test_destructive_commands_are_classed(command, name):
    """Commands that destroy or rewind work have a class, whatever they are wrapped in."""
    assert facts(command).reset == name


@pytest.mark.parametrize("command", NO_RESETS)
def test_mentions_are_no_resets(command):
    """Text that names such a command, and its harmless relatives, have none."""
    assert facts(command).reset is None


@pytest.mark.parametrize(
    ("command", "pause"),
    [
        ("sleep 5", True),
        ("sleep 5 && sleep 5", True),
        ("sleep 30; true", True),
        ("sleep 5; cat log", False),
        (":", False),
    ],
)
def test_a_pause_is_nothing_but_sleeps(command, pause):
    """A sleep followed by a look is an action."""
    assert facts(command).pause is pause


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("ls | sort", False),
        ("cat x > y", True),
        ("cat x > /dev/null", False),
        ("sed -n 1,5p f", False),
        ("sed -i s/a/b/ f", True),
        ("git status && git diff", False),
        ("git commit -am x", True),
        ("git clean -nd", False),
        ("pip install x", True),
        ("python script.py", None),
        ("ls; python script.py", None),
        ("./run.sh; rm x", True),
        ("curl -s https://x", False),
        ("curl -o f https://x", True),
        ("echo 'x", None),
    ],
)
def test_change_is_yes_no_or_not_known(command, change):
    """A line changes state if one command does, and does not if all are known not to."""
    assert facts(command).change is change


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("pytest -q tests", True),
        ("cd app && python3 -X dev -m pytest", True),
        ("python tests/runtests.py a.b", True),
        ("npm run test", True),
        ("git diff", True),
        ("ls", False),
        ("python check_it.py", None),
    ],
)
def test_check(command, check):
    """Tests, linters and diffs verify; an unknown script may."""
    assert facts(command).check is check


@pytest.mark.parametrize(
    ("command", "external"),
    [
        ("git push origin main", True),
        ("git push --dry-run", False),
        ("curl -X POST https://x -d a=1", True),
        ("curl https://x", False),
        ("kubectl apply -f x.yaml", True),
        ("ls", False),
        ("git commit -m x", False),
        ("python deploy.py", None),
    ],
)
def test_external(command, external):
    """Effects that leave the machine."""
    assert facts(command).external is external


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("Write", (False, True, False, False)),
        ("Read", (False, False, False, False)),
        ("mcp__mail__send_email", (False, None, False, True)),
        ("sleep", (True, False, False, False)),
        ("run_tests", (False, None, True, False)),
        ("something_else", (False, None, None, None)),
    ],
)
def test_declared_tools(tool, expected):
    """What the tables declare by name; an unknown tool is not known to do or not to do anything."""
    found = normaliser().call(tool, {"x": 1}).facts
    assert (found.pause, found.change, found.check, found.external) == expected


def test_sql_tools():
    """Statements are judged by their words."""
    made = normaliser()
    of = {q: made.call("run_sql", {"query": q}).facts for q in ("select 1", "drop table t", "call f()")}
    assert [(f.change, f.reset) for f in of.values()] == [(False, None), (True, "drop_table"), (None, None)]


def test_commands_as_lists():
    """An argument vector is judged like text."""
    assert normaliser().call("shell", {"command": ["bash", "-lc", "rm -rf x"]}).facts.reset == "rm_rf"
    assert normaliser().call("shell", {"command": ["echo", "rm -rf x"]}).facts.reset is None


def test_a_cut_command_is_known_only_in_part():
    """Where a command ends in an open quote, nothing is said not to have happened."""
    found = facts("ls; echo 'b")
    assert (found.change, found.check, found.external) == (None, None, None)
    assert facts("sleep 5; sleep '1").pause is None
    assert facts("touch a; echo 'b").change
