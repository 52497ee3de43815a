"""The table of destructive commands: each class, its dry runs, and what only mentions it."""

from __future__ import annotations

import pytest

from agentlens.errors import SettingsError
from agentlens.normalise.resets import read_resets
from agentlens.normalise.tables import Tables
from tests.normalise.norm import facts

RESETS = {
    "redis-cli FLUSHALL": "redis_flush",
    "redis-cli -h cache -p 6380 -n 3 flushdb async": "redis_flush",
    "echo FLUSHALL | redis-cli -h cache": "redis_flush",
    "docker exec cache redis-cli FLUSHALL": "redis_flush",
    "mongosh shop --eval 'db.dropDatabase()'": "mongo_drop",
    'mongo --quiet --eval="db.orders.drop()" shop': "mongo_drop",
    "mongosh --eval 'db.orders.deleteMany({})'": "mongo_drop",
    "echo 'db.dropDatabase()' | mongosh shop": "mongo_drop",
    "mongorestore --drop dump/": "mongo_drop",
    "git worktree remove --force ../wt": "git_worktree_remove",
    "git -C repo worktree remove -f ../wt": "git_worktree_remove",
    "git reflog expire --expire=now --all": "git_reflog_expire",
    "git reflog delete HEAD@{1}": "git_reflog_expire",
    "git prune": "git_prune",
    "git gc --prune=now": "git_prune",
    "git update-ref -d refs/heads/x": "git_ref_delete",
    "git tag -d v1": "git_ref_delete",
    "git rm -rf src": "git_rm_force",
    "git filter-branch --tree-filter 'rm x' HEAD": "git_rewrite",
    "git read-tree -u --reset HEAD": "git_checkout_force",
    "truncate -s 0 app.log": "truncate",
    "truncate --size=0 app.log": "truncate",
    "truncate --size 0 app.log": "truncate",
    "truncate -s0 app.log": "truncate",
    "sudo dd if=/dev/zero of=/dev/sda bs=1M": "dd_device",
    "mkfs.ext4 /dev/sdb1": "mkfs",
    "mkfs.vfat -n BOOT /dev/sdb1": "mkfs",
    "wipefs -a /dev/sdb": "mkfs",
    "blkdiscard /dev/sdb": "disk_wipe",
    "sgdisk --zap-all /dev/sdb": "disk_wipe",
    "zfs destroy -r pool/data": "volume_destroy",
    "shred -u key.pem": "shred",
    "find . -name '*.log' -delete": "find_delete",
    "npx rimraf dist": "rm_rf",
    "Remove-Item -Recurse -Force build": "rm_rf",
    "rsync -a --delete src/ dst/": "rsync_delete",
    "mysqladmin -u root drop shop": "dropdb",
    "docker volume prune -f": "docker_volume_rm",
    "docker container prune -f": "docker_prune",
    "terraform state rm aws_instance.web": "terraform_destroy",
    "kubectl delete ns staging": "kubectl_delete",
    "kind delete cluster --name dev": "cluster_delete",
    "aws --profile prod s3 rm s3://bucket/x --recursive": "object_store_delete",
    "aws s3 rb s3://bucket --force": "object_store_delete",
    "aws s3 sync . s3://bucket --delete": "object_store_delete",
    "gsutil -m rm -r gs://bucket/x": "object_store_delete",
    "rclone purge remote:x": "object_store_delete",
    "aws rds delete-db-instance --db-instance-identifier x": "cloud_delete",
    "gh repo delete me/x --yes": "cloud_delete",
    "kafka-topics.sh --delete --topic t": "queue_purge",
    "etcdctl del --prefix /app": "etcd_delete",
    "crontab -r": "crontab_remove",
    "hg update -C": "hg_revert",
    "python manage.py flush --no-input": "database_reset",
    "python -m alembic downgrade base": "database_reset",
    "npx prisma db push --force-reset": "database_reset",
    "php artisan migrate:fresh --seed": "database_reset",
}
NO_RESETS = [
    "redis-cli GET flushall",
    "redis-cli SET note 'flushall'",
    "echo 'SET note flushall' | redis-cli",
    "echo FLUSHALL | redis-cat",
    "mongosh --eval 'print(\"db.dropDatabase()\")'",
    "mongosh --eval 'db.orders.deleteMany({paid: false})'",
    "mongosh --eval '// db.dropDatabase()'",
    "mongosh shop",
    "git worktree remove ../wt",
    "git worktree list",
    "git reflog",
    "git reflog expire --dry-run --all",
    "git prune -n",
    "git gc",
    "git gc --prune=2.weeks.ago",
    "git tag v1 -m 'delete -d'",
    "git rm --cached -f secret",
    "truncate -s 10M disk.img",
    "truncate -s +0 app.log",
    "dd if=/dev/sda of=/dev/null",
    "dd if=/dev/zero of=test.img bs=1M count=1",
    "dd if=/dev/sda | wc -c",
    "mkfs.ext4 -n /dev/sdb1",
    "wipefs /dev/sdb",
    "wipefs -n -a /dev/sdb",
    "zfs destroy -nv pool/data",
    "rsync -a --delete --dry-run src/ dst/",
    "rsync -an --delete src/ dst/",
    "Remove-Item a.txt",
    "rmdir empty",
    "aws s3 rm s3://bucket/one.txt",
    "aws s3 rm s3://bucket/x --recursive --dryrun",
    "gsutil rm gs://bucket/one.txt",
    "kubectl delete ns staging --dry-run=client",
    "terraform state list",
    "docker volume ls",
    "echo kubectl delete ns staging",
    "grep -rn 'redis-cli FLUSHALL' docs",
    "git commit -m 'terraform destroy; redis-cli flushall'",
    "alembic downgrade base --sql",
    "hg revert -n a.py",
    "php artisan migrate:fresh --pretend",
    "crontab -l",
]


@pytest.mark.parametrize(("command", "name"), RESETS.items())
def test_the_table_classes_destructive_commands(command, name):
    """A command that destroys or rewinds has a class, whatever it is wrapped in, and counts as a change."""
    told = facts(command)
    assert (told.reset, told.change) == (name, True)


@pytest.mark.parametrize("command", NO_RESETS)
def test_dry_runs_and_mentions_have_no_class(command):
    """A dry run, a narrower use of the same program and a text that mentions it destroy nothing."""
    assert facts(command).reset is None


def test_a_user_adds_a_line_with_options(tmp_path):
    """A user's table names a command of its own, with the option that makes it destroy."""
    path = tmp_path / "mine.toml"
    path.write_text('[[reset]]\nname = "wipe_cache"\nwords = ["cachectl wipe"]\nneeds = ["--hard"]\n')
    table = Tables.load(path).resets["cachectl"]
    assert [(line.name, line.words, line.needs) for line in table] == [
        ("wipe_cache", ("cachectl", "wipe"), ("--hard",))
    ]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"name": "x", "words": ["x"], "need": ["-f"]}, "need"),
        ({"name": "x", "words": ["x"], "pattern": "("}, "does not compile"),
        ({"name": "x", "words": ["x"], "unless": "-n"}, "unless is no list"),
        ({"name": "x"}, "is no list of names"),
    ],
)
def test_a_wrong_line_is_refused(entry, told):
    """A key, list or pattern that can not be read is named."""
    with pytest.raises(SettingsError, match=told):
        list(read_resets(entry))
