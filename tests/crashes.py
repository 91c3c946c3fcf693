"""What a crash does to an index: writers killed at every step, and disks that lose what was not synced.

Updates run in a child of a server that has loaded everything and run nothing, so that a child is there in
milliseconds. A step is a call that changes what is on the disk, or waits for it.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

DIM = 16
STEPS = ("fsync", "rename", "replace", "link", "unlink", "rmdir", "mkdir", "open")
"""Functions of `os` at which a writer is stopped."""

State = dict[str, int]
"""What an index holds: the seed of each document's vectors, by id."""


def vectors_of(seed: int, tokens: int = 12) -> np.ndarray:
    """Unit vectors `[tokens, DIM]` of a document."""
    found = np.random.default_rng(seed).standard_normal((tokens, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def _add(folder: Path, documents: State) -> None:
    from colrank import ColRank
    from colrank.index import is_index

    index = ColRank.open(folder) if is_index(folder) else ColRank.create(folder, model=None, bits=2)
    index.add_embeddings(list(documents), [vectors_of(seed) for seed in documents.values()])


def _delete(folder: Path, ids: list[str]) -> None:
    from colrank import ColRank

    ColRank.open(folder).delete(ids)


def _compact(folder: Path) -> None:
    from colrank import ColRank

    ColRank.open(folder).compact()


class Update:
    """One update of an index, and what the index holds after it."""

    def __init__(self, name: str, *, add: State | None = None, delete: tuple[str, ...] = ()) -> None:
        self.name = name
        self._add = add or {}
        self._delete = delete

    def run(self, folder: Path) -> None:
        """Update the index in a folder."""
        if self._add:
            _add(folder, self._add)
        elif self._delete:
            _delete(folder, list(self._delete))
        else:
            _compact(folder)

    def after(self, before: State) -> State:
        """What the index holds once it is done."""
        held = {name: seed for name, seed in before.items() if name not in self._delete}
        return held | self._add


UPDATES = (
    Update("build", add={f"a{number}": number for number in range(20)}),
    Update("add", add={f"b{number}": 100 + number for number in range(6)}),
    Update("replace", add={"a1": 201, "a2": 202, "c": 203}),
    Update("delete", delete=("a3", "b1")),
    Update("compact"),
)
"""The life of an index; each begins where the one before ended."""


def fault_of(folder: Path, state: State) -> str | None:
    """Why an index does not hold just these documents, each found by its vectors; None where it does."""
    from colrank import ColRank
    from colrank.errors import ColRankError

    try:
        index = ColRank.open(folder)
        if len(index) != len(state):
            return f"{len(index)} documents for {len(state)}"
        for name, seed in state.items():
            if index.search(vectors_of(seed), 1)[0].document != name:
                return f"{name} is not found"
        faults = index.verify().faults
        return f"verify: {faults[0]}" if faults else None
    except ColRankError as error:
        return f"{type(error).__name__}: {error}"


def server() -> Any:
    """Where children come from: a process that has loaded everything and run nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["colrank.api", "torch", "faiss", "duckdb", "pyarrow.compute"])
    return context


def in_child(work: Callable[..., None], *arguments: Any) -> int:
    """Run a function in a child process; its exit code, negative where a signal ended it."""
    child = server().Process(target=work, args=arguments)
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def update_until(update: Update, folder: Path, stop: int | None, told: Path | None = None) -> None:
    """Run an update in this process and kill it before its step number `stop`; tell the number of steps."""
    count = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            if count == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return function(*arguments, **options)

        return step

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    update.run(folder)
    if told is not None:
        told.write_text(str(count))


def update_with_little_room(update: Update, folder: Path, most: int) -> None:
    """Run an update while no file may grow beyond `most` bytes; exit code 3 where that was an error told."""
    from colrank.errors import ColRankError

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        update.run(folder)
    except (OSError, ColRankError) as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        (folder.parent / "told").write_text(f"{type(error).__name__}: {error}")
        os._exit(3)


def update_with_failing_step(update: Update, folder: Path, fail: int) -> None:
    """Run an update whose step number `fail` says that the disk is full; exit code 3 where that was told."""
    count = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count - 1 == fail:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*arguments, **options)

        return step

    for name in ("fsync", "rename", "link", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))
    from colrank.errors import ColRankError

    try:
        update.run(folder)
    except (OSError, ColRankError):
        os._exit(3)


# A disk that may lose what was not synced


class _Inode:
    """A file with what it holds and what of that is on the disk, or a folder with its entries."""

    def __init__(self, *, folder: bool) -> None:
        self.folder = folder
        self.content = b""
        self.synced: bytes | None = None
        self.entries: dict[str, _Inode] = {}
        self.sure: dict[str, _Inode] = {}
        self.pending: list[tuple[str, _Inode | None]] = []


class Disk:
    """Replays what a writer did, up to a cut, and gives the trees that may be found after it.

    What a file holds is sure once it was synced, what a folder lists once the folder was. What was not may be
    there, or not, or in part: entries of a folder in the order in which they were made.
    """

    def __init__(self, tree: dict[str, bytes]) -> None:
        self.root = _Inode(folder=True)
        for path, content in tree.items():
            self._write(path, content)
        self._settle(self.root)

    def _settle(self, inode: _Inode) -> None:
        inode.synced, inode.sure, inode.pending = inode.content, dict(inode.entries), []
        for entry in inode.entries.values():
            self._settle(entry)

    def _parent(self, path: str) -> tuple[_Inode, str]:
        inode = self.root
        *folders, name = path.split("/")
        for folder in folders:
            if folder not in inode.entries:
                self._enter(inode, folder, _Inode(folder=True))
            inode = inode.entries[folder]
        return inode, name

    @staticmethod
    def _enter(folder: _Inode, name: str, inode: _Inode | None) -> None:
        if inode is None:
            folder.entries.pop(name, None)
        else:
            folder.entries[name] = inode
        folder.pending.append((name, inode))

    def _write(self, path: str, content: bytes) -> None:
        parent, name = self._parent(path)
        if name not in parent.entries:
            self._enter(parent, name, _Inode(folder=False))
        parent.entries[name].content = content

    def apply(self, event: list[Any]) -> None:
        """Do what one recorded event did."""
        kind, path, *rest = event
        if kind == "write":
            self._write(path, bytes.fromhex(rest[0]))
        elif kind == "fsync":
            inode = self.root if path == "." else None
            if inode is None:
                parent, name = self._parent(path)
                inode = parent.entries[name]
            if inode.folder:
                inode.sure, inode.pending = dict(inode.entries), []
            else:
                inode.synced = inode.content
        elif kind == "mkdir":
            parent, name = self._parent(path)
            self._enter(parent, name, _Inode(folder=True))
        elif kind in ("rename", "link"):
            source, old = self._parent(path)
            target, new = self._parent(rest[0])
            self._enter(target, new, source.entries[old])
            if kind == "rename":
                self._enter(source, old, None)
        elif kind in ("unlink", "rmdir"):
            parent, name = self._parent(path)
            self._enter(parent, name, None)

    def trees(self) -> list[dict[str, bytes]]:
        """What may be found after a cut now: all, none or half of what is not sure, in each combination."""
        return [
            self._tree(self.root, share, data)
            for share in (0.0, 0.5, 1.0)
            for data in ("lost", "torn", "kept")
        ]

    def _tree(self, inode: _Inode, share: float, data: str) -> dict[str, bytes]:
        sure = dict(inode.sure)
        for name, entry in inode.pending[: round(share * len(inode.pending))]:
            if entry is None:
                sure.pop(name, None)
            else:
                sure[name] = entry
        out = {}
        for name, entry in sure.items():
            if entry.folder:
                inside = self._tree(entry, share, data)
                out |= {f"{name}/{path}": content for path, content in inside.items()} or {f"{name}/": b""}
            elif entry.content == entry.synced:
                out[name] = entry.content
            else:
                old = entry.synced or b""
                torn = entry.content[: len(entry.content) // 2]
                out[name] = {"lost": old, "torn": torn, "kept": entry.content}[data]
        return out


def tree_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder by their relative path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        with suppress(OSError):
            if path.is_file():
                found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def write_tree(folder: Path, tree: dict[str, bytes]) -> None:
    """Make a folder with these files; a path that ends in a slash is an empty folder."""
    folder.mkdir(parents=True)
    for path, content in tree.items():
        place = folder / path
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def record_update(update: Update, folder: Path, told: Path) -> None:
    """Run an update and write down what it did to the disk, as one JSON list a line.

    What was written to a file is seen when a step begins, by looking at all files.
    """
    events: list[list[Any]] = []
    seen = tree_of(folder)
    originals = {name: getattr(os, name) for name in ("fsync", "rename", "link", "unlink", "rmdir", "mkdir")}
    names: dict[int, str] = {}
    opened = os.open

    def relative(path: Any) -> str | None:
        place = Path(os.path.abspath(path))  # noqa: PTH100  links stay as they are
        return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else None

    def look() -> None:
        nonlocal seen
        now = tree_of(folder)
        events.extend(
            ["write", path, content.hex()] for path, content in now.items() if seen.get(path) != content
        )
        seen = now

    def open_named(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        handle = opened(path, flags, mode, dir_fd=dir_fd)
        base = Path(names[dir_fd]) if dir_fd is not None else Path()
        names[handle] = os.path.abspath(base / path)  # noqa: PTH100
        return handle

    def hooked(name: str) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            look()
            out = originals[name](*arguments, **options)
            if name == "fsync":
                path = relative(names.get(arguments[0], "/"))
                if path is not None:
                    events.append([name, path])
            else:
                given = arguments[: 2 if name in ("rename", "link") else 1]
                base = Path(names[options["dir_fd"]]) if options.get("dir_fd") is not None else Path()
                paths = [relative(base / path) for path in given]
                if None not in paths:
                    events.append([name, *paths])
            nonlocal seen
            seen = tree_of(folder)
            return out

        return step

    os.open = open_named  # type: ignore[assignment]
    for name in originals:
        setattr(os, name, hooked(name))
    update.run(folder)
    look()
    told.write_text("\n".join(map(json.dumps, events)))


# One writer and several readers

_TOGETHER = 5
"""Documents that every write replaces together."""


def write_versions(folder: Path, seconds: float) -> None:
    """Replace all documents together by their next version, over and over."""
    from colrank import ColRank

    index = ColRank.open(folder)
    names = [f"d{number}" for number in range(_TOGETHER)]
    end = time.monotonic() + seconds
    version = 1
    while time.monotonic() < end:
        index.add_embeddings(
            names,
            [vectors_of(version * 10 + at) for at in range(_TOGETHER)],
            metadata=[{"v": version}] * _TOGETHER,
        )
        index.add_embeddings([f"extra{version}"], [vectors_of(version)], metadata=[{"v": -1}])
        index.delete([f"extra{version}"])
        version += 1


def read_versions(folder: Path, seconds: float, told: Path) -> None:
    """Search while another process writes; tell how many searches and generations there were."""
    from colrank import ColRank

    index = ColRank.open(folder)
    generations, searches = set(), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        opened = index if searches % 2 else ColRank.open(folder)
        opened.refresh()
        generations.add(opened.snapshot.manifest.generation)
        for scan in ("always", "never"):
            hits = opened.search(vectors_of(searches), 100, scan=scan)
            versions = {hit.metadata["v"] for hit in hits if hit.metadata["v"] >= 0}
            names = {hit.document for hit in hits if hit.metadata["v"] >= 0}
            if len(versions) != 1 or len(names) != _TOGETHER:
                told.write_text(f"{versions} of {names} at once")
                os._exit(5)
        searches += 1
    told.write_text(json.dumps([searches, len(generations)]))


def readers_and_a_writer(folder: Path, seconds: float, readers: int) -> list[list[int]]:
    """Run one writer and several readers on an index for some time: searches and generations of each reader.

    Raises:
        AssertionError: one of them failed, or saw a generation that was not whole.
    """
    from colrank import ColRank

    index = ColRank.create(folder, model=None, bits=2)
    index.add_embeddings(
        [f"d{number}" for number in range(_TOGETHER)],
        [vectors_of(number) for number in range(_TOGETHER)],
        metadata=[{"v": 0}] * _TOGETHER,
    )
    context = server()
    told = [folder.parent / f"told-{number}" for number in range(readers)]
    children = [context.Process(target=write_versions, args=(folder, seconds))]
    children += [context.Process(target=read_versions, args=(folder, seconds, place)) for place in told]
    for child in children:
        child.start()
    for child in children:
        child.join()
    reports = [place.read_text() if place.exists() else "nothing told" for place in told]
    assert all(child.exitcode == 0 for child in children), reports
    return list(map(json.loads, reports))
