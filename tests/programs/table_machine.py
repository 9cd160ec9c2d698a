"""Random schedules of jobs, vacuums, readers and accidents over a simulated storage, judged by an oracle.

    python tests/programs/table_machine.py --kind disk --count 20000 [--seed 1] [--scene mixed]
    python tests/programs/table_machine.py --kind store --trace 17

The code under test is that of `spark_arrow_ipc.table`; only the storage is simulated (`simulated_storage`). The oracle sees
each request as it is carried out, and which bytes are which. It raises a `Violation` when:

- a job is told that it committed and its entry is not in the log, or that nothing is published and it is;
- a file that counts is deleted, or a file of another program that no entry removes;
- a reader sees files that are those of no state between the beginning and the end of its reading;
- a token counts twice, or a job commits that replaced files which others had changed;
- at rest, after a vacuum, files are there that do not count, or are missing, or something is still staged.
"""

import argparse
import random
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from simulated_storage import Actor, SimulatedStorage

from spark_arrow_ipc.errors import ArrowIpcError, CommitError, ConcurrentWriteError, NoFilesError
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table import log, names, state
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import StagedFile
from spark_arrow_ipc.table.names import TableDirectory, data_file_name, managed_name
from spark_arrow_ipc.table.restore import restore
from spark_arrow_ipc.table.snapshot import Snapshot, removal_of
from spark_arrow_ipc.table.state import State
from spark_arrow_ipc.table.transaction import Phase, Transaction, UnknownOutcomeError
from spark_arrow_ipc.table.vacuum import vacuum

ROOT = "sim:/t"
PARTITIONS = ("k=0", "k=1")
SCENES = ("mixed", "hot", "power", "hole", "removed", "restore")
OPERATIONS = (
    Operation.APPEND,
    Operation.APPEND,
    Operation.OVERWRITE,
    Operation.OVERWRITE_PARTITIONS,
    Operation.REWRITE,
)


class Violation(Exception):  # noqa: N818
    """What must not happen has happened."""


class Ghost:
    """The table as it really is: its entries as they were carried out."""

    def __init__(self, table):
        self.table, self.entries = table, []
        self.states = [
            ({}, frozenset())
        ]  # paths that count with their bytes, and ids of removed files of other programs
        self.jobs, self.tokens, self.numbers = {}, {}, {}

    @property
    def head(self):
        return len(self.entries)

    @property
    def live(self):
        return self.states[-1][0]

    @property
    def removed(self):
        return self.states[-1][1]

    def apply(self, world, entry):
        """Apply an entry that has just been put."""
        self.entries.append(entry)
        live, removed = dict(self.live), self.removed
        for job in entry.expire:
            self.jobs.setdefault(job, "expired")
        if entry.operation.is_of_job and self.jobs.get(entry.job) != "expired":
            if self.jobs.get(entry.job) == "committed":
                raise Violation(f"the job {entry.job[:4]} counts twice")
            if world.told.get(entry.job) == "nothing":
                raise Violation(f"the job {entry.job[:4]} was told that nothing is published, and commits")
            if entry.token is not None and self.tokens.setdefault(entry.token, entry.job) != entry.job:
                raise Violation(f"the token {entry.token} counts twice")
            self._check_conflicts(entry)
            self.jobs[entry.job] = "committed"
            for file in entry.remove:
                if file.is_managed:
                    if live.pop(file.path, None) is None:
                        raise Violation(f"{file.path} is removed twice: its rows come twice")
                else:
                    ids = {world.seen_ids[file.path, file.nbytes, file.version]}
                    if ids & removed:
                        raise Violation(f"{file.path} is removed twice: its rows come twice")
                    removed |= ids
            for path in entry.add.paths:
                at = join(ROOT, path)
                if at not in world.storage.files:
                    raise Violation(f"{path} counts and is not there")
                live[path] = world.storage.files[at].data
            if entry.restores is not None:
                then, now = ({*files.values()} for files in (self.states[entry.restores][0], live))
                if then != now:
                    raise Violation(f"entry {entry.restores} is restored with other rows: {sorted(then ^ now)}")
                self.tokens = {token: job for token, job in self.tokens.items() if self.numbers[job] <= entry.restores}
            self.numbers[entry.job] = entry.number
        self.states.append((live, removed))

    def _check_conflicts(self, entry):
        since = [
            e for e in self.entries[entry.base : -1] if e.operation.is_of_job and self.jobs.get(e.job) == "committed"
        ]
        touched = {path.partition("/")[0] for path in entry.add.paths}
        for other in since:
            removes = {file.path.partition("/")[0] for file in other.remove}
            adds = {path.partition("/")[0] for path in other.add.paths}
            if entry.operation is Operation.OVERWRITE and (removes or other.operation is Operation.OVERWRITE):
                raise Violation(f"a conflict was missed: {entry.job[:4]} after {other.job[:4]}")
            if entry.operation is Operation.OVERWRITE_PARTITIONS and touched & (removes | adds):
                raise Violation(f"a conflict was missed: {entry.job[:4]} after {other.job[:4]}")


class World:
    """A storage, its actors, and the oracle that observes both."""

    def __init__(self, kind, scene, seed):
        self.kind, self.scene, self.seed = kind, scene, seed
        self.rng = random.Random(f"{kind} {scene} {seed}")
        self.storage = SimulatedStorage(self.rng, is_store=kind == "store", observer=self)
        self.directory = TableDirectory(self.storage, ROOT)
        self.ghost, self.actors, self.told, self.counts = None, [], {}, Counter()
        self.seen_ids, self.died, self.removals, self.trace, self.rows = {}, set(), 0, [], 0

    def id(self, length=32):
        return f"{self.rng.getrandbits(4 * length):0{length}x}"

    def row(self):
        self.rows += 1
        return f"r{self.rows}"

    # ---- what the storage carries out

    def created(self, writer, path, file):
        if path == self.directory.id_file and self.ghost is None:
            self.ghost = Ghost(log.parse_json(file.data)["table"])
        parsed = names.parse_number(path.rpartition("/")[2])
        if self.ghost is None or parsed is None or parsed[1] != "json":
            return
        if path != self.directory.entry(self.ghost.table, parsed[0]):
            return
        entry = Entry.from_bytes(file.data, parsed[0])
        ghost = self.ghost
        if entry.number != ghost.head + 1 or entry.previous != (ghost.entries[-1].id if ghost.entries else ""):
            self.counts["holes"] += 1
            return
        self.trace.append(f"== entry {entry.number} {entry.operation} {entry.job[:4]} by {writer}")
        ghost.apply(self, entry)

    def deleted(self, writer, path, file, *, moved):
        relative = path.removeprefix(ROOT + "/")
        if relative.startswith("_ipc_"):
            return
        if writer == "foreign":
            self.died.add(file.id)
        elif self.ghost is not None and relative in self.ghost.live:
            raise Violation(f"{writer} deleted {relative}, which counts")
        elif self.storage.is_late and file.writer == "foreign":
            self.died.add(file.id)  # a request to delete came late and met a newer file: the price that ADR 44 names
            self.counts["late deletions"] += 1
        elif file.writer == "foreign" and self._is_in_the_instant(writer, path, file):
            self.died.add(
                file.id
            )  # another program replaced the file between its comparison and its deletion: the other price
            self.counts["instants"] += 1
        elif file.writer == "foreign" and (self.ghost is None or file.id not in self.ghost.removed):
            raise Violation(f"{writer} deleted {relative}, a file of another program that no entry removes")

    def _is_in_the_instant(self, writer, path, file):
        compared = self.storage.compared.get((writer, path), file.id)
        return compared != file.id and self.ghost is not None and compared in self.ghost.removed

    # ---- actors

    def write(self, operation, partition, token, retain):
        job = self.id()
        transaction = None
        try:
            snapshot = Snapshot.open(self.directory)
            transaction = Transaction.begin(self.directory, base=snapshot.state, job=job)
            after = self._stage_and_commit(transaction, snapshot, operation, partition, token, retain)
            if transaction.phase is not Phase.COMMITTED:
                assert token in after.tokens
                transaction.abort()
                self.told.setdefault(job, "token")
                return
        except UnknownOutcomeError:
            self.tell(job, "unknown")
            return
        except (ArrowIpcError, OSError) as error:
            self.trace.append(f"   {job[:4]} fails: {error}")
            try:
                is_aborted = transaction is None or transaction.abort()
            except (ArrowIpcError, OSError):
                self.tell(job, "unknown")
                return
            if is_aborted:
                self.tell(job, "nothing")
                return
        self.tell(job, "committed")
        with suppress(ArrowIpcError, OSError):
            transaction.collect()

    def _stage_and_commit(self, transaction, snapshot, operation, partition, token, retain):
        directory, storage, job = self.directory, self.storage, transaction.job
        base = snapshot.state or State(transaction.table)
        in_scope = {
            Operation.APPEND: lambda path: False,
            Operation.OVERWRITE: lambda path: True,
        }.get(operation, lambda path: path.startswith(partition))
        removes, rows = [], []
        for path, nbytes in zip(base.files.paths, base.files.nbytes.tolist(), strict=True):
            if in_scope(path):
                removes.append(Removed(path, nbytes))
        for path, status in snapshot.unmanaged.items():
            if in_scope(path):
                removed = removal_of(directory, path, status)
                file = storage.files.get(status.path)
                if file is None:
                    raise ConcurrentWriteError(f"{path} is gone")
                self.seen_ids[removed.path, removed.nbytes, removed.version] = file.id
                removes.append(removed)
        if operation is Operation.REWRITE:
            if not removes:
                raise ConcurrentWriteError("nothing to rewrite")
            for file in removes:
                rows += storage.read(directory.path(file.path), 1 << 20).decode().split(",")
        count = 1 if operation is Operation.REWRITE else self.rng.choice([1, 1, 2])
        staged = []
        for number in range(count):
            at = self.rng.choice(PARTITIONS) if operation is Operation.OVERWRITE else partition
            data = ",".join(rows or [self.row() for _ in range(self.rng.choice([1, 2]))]).encode()
            name = data_file_name(number, transaction.table, job)
            path = join(directory.staging(job), f"{number}.staged")
            for _ in range(3):
                with suppress(OSError):
                    storage.put(path, data, durable=True)
                    break
            else:
                raise CommitError("cannot stage")
            staged.append(StagedFile(f"{number}.staged", at, name, len(data), len(data), 0))
        transaction.name_files(staged)
        live = {p for p in base.files.paths if p.startswith(partition)}
        change = Entry(0, "", operation, remove=tuple(removes), token=token, retain=retain and bool(removes))

        def follow(now):
            if operation is Operation.OVERWRITE and now.last_removal > base.number:
                raise ConcurrentWriteError("others removed files")
            if operation is Operation.OVERWRITE_PARTITIONS and (
                live != {p for p in now.files.paths if p.startswith(partition)} or now.last_removal > base.number
            ):
                raise ConcurrentWriteError("others changed the partition")
            return change

        return transaction.commit(follow)

    def tell(self, job, outcome):
        self.trace.append(f"   {job[:4]} is told: {outcome}")
        self.told.setdefault(job, outcome)
        self.counts[outcome] += 1
        is_committed = self.ghost is not None and self.ghost.jobs.get(job) == "committed"
        if outcome == "committed" and not is_committed:
            raise Violation(f"the job {job[:4]} is told that it is committed, and is not")
        if outcome == "nothing" and is_committed:
            raise Violation(f"the job {job[:4]} is told that nothing is published, and is committed")

    def restore(self):
        """Restore an older entry; the job's id is the next random one."""
        if self.ghost is None or not self.ghost.head:
            return
        with suppress(ArrowIpcError, OSError):
            restore(self.directory, self.rng.randrange(1, self.ghost.head + 1))

    def run_vacuum(self, older_than):
        with suppress(ArrowIpcError, OSError):
            vacuum(self.directory, older_than=older_than)

    def maintain(self):
        with suppress(ArrowIpcError, OSError):
            now = log.read_state(self.directory)
            if now is not None and now.number:
                log.write_checkpoint(self.directory, now)
                log.prune(self.directory, now)

    def read(self):
        ghost, removals = self.ghost, self.removals
        start = 0 if ghost is None else ghost.head
        before = self._foreign()
        try:
            snapshot = Snapshot.open(self.directory)
        except ConcurrentWriteError:
            return
        except OSError:
            if self.storage.is_lossy:
                return
            raise
        except CommitError as error:
            if self.removals != removals:
                return
            raise Violation(f"a reader is told: {error}") from None
        if self.ghost is not ghost or self.removals != removals:
            return
        after = self._foreign()
        live = set() if snapshot.state is None else set(snapshot.state.files.paths)
        seen = {path: self.storage.files.get(join(ROOT, path)) for path in snapshot.unmanaged}
        strangers = [path for path, file in seen.items() if file is not None and file.writer != "foreign"]
        strangers += [path for path in seen if self._is_copied(path)]
        if strangers:
            raise Violation(f"a reader sees {strangers[0]}, a file of ours, as one of another program")
        ids = {after[path] for path in seen if after.get(path) == before.get(path) and path in after}
        constant = {id_ for path, id_ in before.items() if after.get(path) == id_}
        states = [({}, frozenset())] if ghost is None else ghost.states[start:]
        if not any(live == set(paths) and not ids & removed and constant - removed <= ids for paths, removed in states):
            raise Violation("a reader sees files that are those of no state")
        self._travel(ghost, removals)

    def _travel(self, ghost, removals):
        """Read the state after an older entry, which must be that state, or say that it is no longer retained."""
        if ghost is None or not ghost.head:
            return
        number = self.rng.randrange(1, ghost.head + 1)
        with suppress(NoFilesError, OSError):
            then = log.read_state(self.directory, number)
            if self.ghost is not ghost or self.removals != removals or then is None:
                return
            if set(then.files.paths) != set(ghost.states[number][0]):
                raise Violation(f"the state after entry {number} is none that was")

    def _foreign(self):
        return {
            path.removeprefix(ROOT + "/"): file.id
            for path, file in self.storage.files.items()
            if file.writer == "foreign" and not path.startswith(f"{ROOT}/_ipc_") and not self._is_copied(path)
        }

    def _is_copied(self, path):
        name = managed_name(path)
        return name is not None and self.ghost is not None and name.table == self.ghost.table

    # ---- other programs and persons

    def meddle(self, what):
        partition = self.rng.choice(PARTITIONS)
        path = f"{ROOT}/{partition}/other{self.rng.randrange(2)}.arrow"
        if what == "drop":
            self.storage.place(path, self.row().encode())
        elif what == "delete" and path in self.storage.files:
            file = self.storage.files.pop(path)
            self.storage.durable.pop(path, None)
            self.died.add(file.id)
        elif (
            what == "copy" and self.ghost is not None and self.ghost.live
        ):  # a file of a copy of this table, of a job that is unknown here
            name = data_file_name(0, self.ghost.table, self.id())
            self.storage.place(f"{ROOT}/{partition}/{name}", self.row().encode())
        elif what == "remove":
            self.storage.remove_tree(ROOT)
            self.removals += 1
            self.ghost = None
            for job, outcome in list(self.told.items()):
                self.told[job] = "removed" if outcome == "committed" else outcome
            # A late upload of a removed table is a file of nobody in the new one: not judged.
            self.storage.late = []

    def cut_power(self):
        for actor in self.actors:
            actor.stop()
        self.actors.clear()
        self.storage.cut_power()
        if self.ghost is None:
            return
        if self.directory.id_file not in self.storage.files:
            lost = [job for job in self.ghost.jobs if self.told.get(job) == "committed"]
            if lost:
                raise Violation("a power loss takes a table whose job was told that it is committed")
            self.ghost = None
            return
        try:
            now = log.read_state(self.directory)
        except ArrowIpcError as error:
            raise Violation(f"after a power loss: {error}") from None
        for entry in self.ghost.entries[now.number :]:
            if self.told.get(entry.job) == "committed":
                raise Violation(f"a power loss takes the entry of {entry.job[:4]}, which was told that it is committed")
            if entry.operation.is_of_job:
                self.ghost.jobs.pop(entry.job, None)
                if self.ghost.tokens.get(entry.token) == entry.job:
                    del self.ghost.tokens[entry.token]
            for job in entry.expire:
                if self.ghost.jobs.get(job) == "expired":
                    del self.ghost.jobs[job]
        del self.ghost.entries[now.number :], self.ghost.states[now.number + 1 :]


def spawn(world):
    """Start an actor, or do at once what other programs do."""
    rng, chance = world.rng, world.rng.random()
    name = f"a{world.id(4)}"
    if world.scene in {"hot", "hole"} and rng.random() < 0.4:
        chance = rng.choice([0.55, 0.65, 0.65])
    if chance < 0.5:
        operation = rng.choice(OPERATIONS)
        token = rng.choice([None, "A", "B"]) if operation is Operation.APPEND else None
        partition, retain = rng.choice(PARTITIONS), rng.random() < 0.3
        target, name = lambda: world.write(operation, partition, token, retain), f"writer {name}"
    elif chance < 0.6:
        older_than = rng.choice([-(10**9), 10**9])  # clocks may be wrong by hours: any verdict
        target, name = lambda: world.run_vacuum(older_than), f"vacuum {name}"
    elif chance < 0.72:
        target, name = world.maintain, f"maintenance {name}"
    elif chance < 0.83:
        target, name = world.read, f"reader {name}"
    elif chance < 0.87 or (world.scene == "restore" and rng.random() < 0.7):
        target, name = world.restore, f"restore {name}"
    else:
        likely = ["drop", "drop", "delete", "copy"]
        world.meddle("remove" if rng.random() < (0.2 if world.scene == "removed" else 0.02) else rng.choice(likely))
        return
    world.actors.append(SimpleNamespace(actor=Actor(name, target), frozen=0))


@contextmanager
def small_numbers(world):
    """Small memories, and ids that the seed repeats."""
    hot = world.scene in {"hot", "hole"}
    with (
        mock.patch.object(state, "REMEMBERED", 4 if hot else 8),
        mock.patch("spark_arrow_ipc.table.collect.REMEMBERED", 4 if hot else 8),
        mock.patch.object(log, "CHECKPOINT_INTERVAL", 2 if hot else 3),
        mock.patch.object(log, "LEAST_RETAINED", 2 if hot else 5),
        mock.patch.object(log, "DEFAULT_RETENTION", -(10**9)),
        mock.patch.object(names, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=world.id()))),
    ):
        yield


def run(kind, scene, seed):
    """Run one schedule, and return its world and the text of a violation, or None."""
    world = World(kind, scene, seed)
    with small_numbers(world):
        try:
            schedule(world)
        except Violation as violation:
            return world, str(violation)
        except (ArrowIpcError, OSError, AssertionError, KeyError) as error:
            return world, f"an error that nobody expects: {error!r}"
        finally:
            for each in world.actors:
                with suppress(Exception):
                    each.actor.stop()
    return world, None


def schedule(world):
    rng, storage = world.rng, world.storage
    for _ in range(rng.choice([0, 0, 1, 2, 5, 9])):
        world.write(rng.choice(OPERATIONS[:4]), rng.choice(PARTITIONS), token=None, retain=False)
        if rng.random() < 0.3:
            world.maintain()
    storage.is_lossy = rng.random() < 0.8
    killing, freezing = rng.choice([0, 0.004, 0.02]), rng.choice([0, 0.01, 0.04])
    freezing = rng.choice([0.02, 0.06]) if world.scene in {"hot", "hole"} else freezing
    dark = 0.015 if world.scene == "power" else 0.003 if rng.random() < 0.5 else 0
    left, most = rng.choice([20, 30, 40] if world.scene == "hole" else [4, 8, 14, 20]), rng.choice([1, 2, 3, 4])
    while True:
        world.actors = [each for each in world.actors if not each.actor.is_done]
        ready = [each for each in world.actors if not each.frozen]
        if left and len(ready) < most and rng.random() < 0.3:
            spawn(world)
            left -= 1
            for each in world.actors:
                each.frozen = max(0, each.frozen - 1)
            continue
        if storage.late and rng.random() < 0.02:
            storage.carry_out_late()
            continue
        if not ready:
            if left:
                continue
            if not world.actors:
                break
            rng.choice(world.actors).frozen = 0
            continue
        each, chance = rng.choice(ready), rng.random()
        step = each.actor.next_step
        if chance < killing:
            world.counts["kills"] += 1
            world.trace.append(f"   {each.actor.name} is killed before {step}")
            each.actor.stop()
        elif chance < killing + freezing or (world.scene == "hole" and step == "put_if_absent" and rng.random() < 0.3):
            each.frozen = rng.choice([12, 18, 25] if step == "put_if_absent" else [1, 3, 8, 15])
        elif world.kind == "disk" and rng.random() < dark:
            world.counts["power losses"] += 1
            world.trace.append("   power loss")
            world.actors, actors = [], world.actors
            for other in actors:
                other.actor.stop()
            world.cut_power()
        else:
            world.trace.append(f"{each.actor.name}: {step}")
            each.actor.step()
    check_at_rest(world)


def check_at_rest(world):
    storage = world.storage
    storage.is_lossy = False
    # A file that is staged after all is the next vacuum's.
    for request in [request for request in storage.late if request[0] == storage._put]:
        storage.late.remove(request)
        storage.carry_out(*request)
    vacuum(world.directory, older_than=-(10**9))
    while storage.late:
        storage.carry_out_late()
    ghost = world.ghost
    live = {} if ghost is None else ghost.live
    removed = frozenset() if ghost is None else ghost.removed
    data = {
        path.removeprefix(ROOT + "/"): file
        for path, file in storage.files.items()
        if not path.startswith(f"{ROOT}/_ipc_")
    }
    due = {*live, *(path for path, file in data.items() if file.writer == "foreign" and file.id not in removed)}
    residual = {path.removeprefix(ROOT + "/") for path in storage.copied_late}
    world.counts["residual"] += len({*data} & residual - due)
    if {*data} - residual != due - residual:
        raise Violation(f"at rest: too many {sorted({*data} - due)}, too few {sorted(due - {*data})}")
    staged = [path for path in storage.files if path.startswith(f"{ROOT}/_ipc_stage")]
    if staged:
        raise Violation(f"at rest: staged {staged[0]}")
    world.read()
    if live:
        storage.files.pop(join(ROOT, world.rng.choice(sorted(live))))
        with suppress(CommitError):
            Snapshot.open(world.directory)
            raise Violation("a reader sees fewer rows where a file is missing")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=["disk", "store"], default="disk")
    parser.add_argument("--scene", choices=SCENES, default="mixed")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop", action="store_true", help="end with the first violation")
    parser.add_argument("--trace", type=int)
    arguments = parser.parse_args()
    if arguments.trace is not None:
        world, violation = run(arguments.kind, arguments.scene, arguments.trace)
        print(*world.trace, sep="\n")
        print(violation)
        return bool(violation)
    start, violations, counts = time.process_time(), {}, Counter()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        world, violation = run(arguments.kind, arguments.scene, seed)
        counts.update(world.counts)
        counts["lost replies"] += world.storage.lost
        counts["entries"] += 0 if world.ghost is None else world.ghost.head
        if violation:
            violations.setdefault(violation[:25], []).append((len(world.trace), seed, violation))
            if arguments.stop:
                break
    print(
        f"{arguments.kind} {arguments.scene}: {arguments.count} schedules, {time.process_time() - start:.0f} CPU s, {dict(counts)}"
    )
    for cases in sorted(violations.values(), key=len, reverse=True):
        steps, seed, violation = min(cases)
        print(f"{len(cases):6} x  seed {seed}, {steps} steps: {violation}")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
