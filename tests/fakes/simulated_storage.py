"""`SimulatedStorage`: files of a simulated disk or object store that are reached step by step, by actors that take turns.

Each call of the storage is a step. An actor is a thread that stops before each step until the scheduler lets it go on, so a
random generator decides every interleaving, and a seed repeats it. The scheduler kills actors between two steps, loses
replies and delays requests (stores), and cuts the power: then each name that was not synced is there or not, by chance (disks).
"""

import errno
import io
import threading
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace

from spark_arrow_ipc.storage.base import LearnsByDoing, check_small, missing
from spark_arrow_ipc.storage.byte_source import BufferSource
from spark_arrow_ipc.storage.storage import Kind, Status, Traits


class Killed(BaseException):
    """Ends an actor between two steps."""


@dataclass(frozen=True)
class File:
    """The bytes under a name: who wrote them, when, and an id that copies and renames keep."""

    data: bytes
    writer: str
    mtime: int
    id: int


class Actor:
    """A thread that runs `target` and stops before each step."""

    def __init__(self, name, target):
        self.name, self.error, self.is_done = name, None, False
        self.next_step, self.kill = None, False
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(target,), daemon=True)
        self._thread.actor = self
        self._thread.start()
        self._stopped.acquire()

    def _run(self, target):
        try:
            self._go_on("begin")
            target()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - the scheduler raises it
            self.error = error
        self.is_done = True
        self._stopped.release()

    def _go_on(self, step):
        self.next_step = step
        self._stopped.release()
        self._go.acquire()
        if self.kill:
            raise Killed

    def step(self):
        """Run to the next step, or to the end."""
        self._go.release()
        self._stopped.acquire()
        if self.error is not None:
            raise self.error

    def stop(self):
        """Kill the actor before its next step."""
        if not self.is_done:
            self.kill = True
            self.step()


def stop_before(step):
    """Let the scheduler decide when the current actor takes a step; other threads go on at once."""
    actor = getattr(threading.current_thread(), "actor", None)
    if actor is not None:
        actor._go_on(step)
    return "scheduler" if actor is None else actor.name


class SimulatedStorage(LearnsByDoing):
    """See the module. `observer` gets `created`, `deleted` and `moved` as they are carried out."""

    def __init__(self, rng, *, is_store, observer):
        self.rng, self.is_store, self.observer = rng, is_store, observer
        self.files, self.durable, self.directories = {}, {}, set()
        self.late, self.is_lossy, self.is_late, self.clock, self._ids = [], False, False, 0, 0
        self.lost = 0
        # Files whose upload came late, and copies of these that came later yet: what a vacuum in between cannot know of.
        self.put_late, self.copied_late = set(), set()
        self.compared = {}  # the file that an actor has last seen by its status

    @property
    def traits(self):
        return Traits(directories=not self.is_store, renames=not self.is_store)

    # ---- reading

    def status(self, path, *, follow_links=True):
        writer = stop_before("status")
        if path in self.files:
            self.compared[writer, path] = self.files[path].id
        return self._status(path)

    def _status(self, path):
        file = self.files.get(path)
        if file is None:
            inside = path + "/"
            is_directory = path in self.directories or any(name.startswith(inside) for name in self.files)
            return Status(path, Kind.DIRECTORY) if is_directory else None
        version = f"{zlib.crc32(file.data):08x}" if self.is_store else ""
        return Status(path, Kind.FILE, len(file.data), file.mtime * 10**9, version=version)

    def list(self, directory):
        stop_before("list")
        inside = directory + "/"
        names = {
            path[len(inside) :].partition("/")[0]
            for path in (*self.files, *self.directories)
            if path.startswith(inside)
        }
        if not names and directory not in self.directories and not self.is_store:
            raise missing(directory)
        return iter([self._status(inside + name) for name in sorted(names)])

    def read(self, path, max_nbytes):
        stop_before("read")
        file = self.files.get(path)
        if file is None:
            raise missing(path)
        check_small(path, len(file.data), max_nbytes)
        return file.data

    def open(self, path, *, memory_map=False, listed=None):
        return BufferSource(self.read(path, 1 << 30))

    # ---- changing

    def put(self, path, data, *, durable=False, scratch=None):
        self._request("put", self._put, path, bytes(data))

    def create(self, path):
        """Return a file whose bytes are put when it is closed."""
        storage = self

        class Sink(io.BytesIO):
            def close(self):
                if not self.closed:
                    data = self.getvalue()
                    super().close()
                    storage.put(path, data)

        return Sink()

    def put_if_absent(self, path, data, *, durable=False):
        return self._request("put_if_absent", self._put_if_absent, path, bytes(data))

    def publish(self, staged, final):
        self._request(
            "copy" if self.is_store else "rename", self._copy if self.is_store else self._rename, staged, final
        )
        return False

    def delete(self, path):
        self._request("delete", self._delete, path)

    def delete_tree(self, directory):
        for path in [path for path in self.files if path.startswith(directory + "/")]:
            self.delete(path)

    def make_directory(self, directory):
        if not self.is_store:
            stop_before("make_directory")
            parts = directory.split("/")
            self.directories |= {"/".join(parts[:stop]) for stop in range(2, len(parts) + 1)}

    def delete_directory_if_empty(self, directory):
        if not self.is_store:
            stop_before("delete_directory")
            if not any(path.startswith(directory + "/") for path in (*self.files, *self.directories)):
                self.directories.discard(directory)

    def sync(self, directory):
        if self.is_store:
            return
        stop_before("sync")
        for names in (self.durable, self.files):
            for path in [path for path in names if path.rpartition("/")[0] == directory]:
                if path in self.files:
                    self.durable[path] = self.files[path]
                else:
                    del self.durable[path]

    def _request(self, name, call, *arguments):
        """Carry out a request; of a store, perhaps without a reply, later, or twice."""
        writer = stop_before(name)
        self.clock += 1
        if not self.is_lossy or not self.is_store:
            return call(writer, *arguments)
        chance = self.rng.random()
        if chance < 0.1:
            how = self.rng.choice(["done", "later", "never", "twice", "both"])
            self.lost += 1
            result = None
            for _ in range({"done": 1, "both": 1, "twice": 2}.get(how, 0)):
                result = call(writer, *arguments)
            if how in {"later", "both"}:
                self.late.append((call, writer, *arguments))
            if how == "twice" and self.rng.random() < 0.5:
                return result
            raise OSError(errno.EIO, "no reply", arguments[0])
        if chance < 0.13:  # a proxy repeats it later
            self.late.append((call, writer, *arguments))
        return call(writer, *arguments)

    def carry_out_late(self):
        """Carry out one of the late requests."""
        self.carry_out(*self.late.pop(self.rng.randrange(len(self.late))))

    def carry_out(self, call, *arguments):
        """Carry out a late request."""
        self.clock += 1
        self.is_late = True
        if call == self._put:
            self.put_late.add(arguments[1])
        elif call == self._copy and arguments[1] in self.put_late:
            self.copied_late.add(arguments[2])
        with suppress(OSError):
            call(*arguments)
        self.is_late = False

    def _new_id(self):
        self._ids += 1
        return self._ids

    def _has_directory(self, path):
        return self.is_store or path.rpartition("/")[0] in self.directories

    def _put(self, writer, path, data):
        if not self._has_directory(path):
            raise missing(path)
        self._create(path, File(data, writer, self.clock, self._new_id()), writer)

    def _put_if_absent(self, writer, path, data):
        if path in self.files:
            return False
        self._put(writer, path, data)
        return True

    def _copy(self, writer, source, target):
        if source not in self.files:
            raise missing(source)
        self._create(target, replace(self.files[source], mtime=self.clock), writer)

    def _rename(self, writer, source, target):
        if source not in self.files or not self._has_directory(target):
            raise missing(source)
        file = self.files.pop(source)
        self.observer.deleted(writer, source, file, moved=target)
        self._create(target, file, writer)

    def _delete(self, writer, path):
        file = self.files.pop(path, None)
        if file is not None:
            self.observer.deleted(writer, path, file, moved=None)

    def _create(self, path, file, writer):
        before = self.files.get(path)
        if before is not None and before.data != file.data:
            self.observer.deleted(writer, path, before, moved=None)
        self.files[path] = file
        self.observer.created(writer, path, file)

    # ---- accidents and others

    def cut_power(self):
        """Of each name that was not synced, have the state before or after, by chance."""
        for path in sorted({*self.files, *self.durable}):
            now, then = self.files.get(path), self.durable.get(path)
            if now is not then and self.rng.random() < 0.5:
                if then is None:
                    del self.files[path]
                else:
                    self.files[path] = then
                    self._keep_directories(path)
        self.durable = dict(self.files)

    def _keep_directories(self, path):
        parts = path.split("/")
        self.directories |= {"/".join(parts[:stop]) for stop in range(2, len(parts))}

    def place(self, path, data, writer="foreign"):
        """Put a file as another program does, in one step."""
        self.clock += 1
        self._keep_directories(path)
        file = File(data, writer, self.clock, self._new_id())
        self._create(path, file, writer)
        self.durable[path] = file

    def remove_tree(self, directory):
        """Remove a directory as a person does, in one step."""
        for names in (self.files, self.durable):
            for path in [path for path in names if path.startswith(directory + "/")]:
                del names[path]
        self.directories = {path for path in self.directories if not path.startswith(directory)}
