"""Crashes, full disks and power cuts in small; `bench/durability.py` has them in full."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from crashes import (
    UPDATES,
    Disk,
    State,
    fault_of,
    in_child,
    readers_and_a_writer,
    record_update,
    tree_of,
    update_until,
    update_with_failing_step,
    update_with_little_room,
    write_tree,
)

from colrank import ColRank
from colrank.errors import IndexDamaged, IndexLocked, IndexMissing
from colrank.index import IndexWriter, is_index


def lived(folder: Path, until: int) -> State:
    """An index after the first updates, and what it holds."""
    state: State = {}
    for update in UPDATES[:until]:
        update.run(folder)
        state = update.after(state)
    return state


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, State]]:
    """The index before each update, and what it holds then."""
    top = tmp_path_factory.mktemp("lives")
    return [(top / str(until) / "i", lived(top / str(until) / "i", until)) for until in range(len(UPDATES))]


def copied(lives: list[tuple[Path, State]], number: int, target: Path) -> tuple[Path, State]:
    source, state = lives[number]
    shutil.rmtree(target, ignore_errors=True)
    if source.exists():
        shutil.copytree(source, target)
    return target, state


@pytest.mark.parametrize("number", range(len(UPDATES)), ids=[update.name for update in UPDATES])
def test_a_killed_writer_leaves_the_generation_before_or_after(
    lives: list[tuple[Path, State]], number: int, tmp_path: Path
):
    update = UPDATES[number]
    folder, before = copied(lives, number, tmp_path / "i")
    told = tmp_path / "steps"
    assert in_child(update_until, update, folder, None, told) == 0
    steps = int(told.read_text())
    after = update.after(before)
    assert fault_of(folder, after) is None
    for stop in range(0, steps, max(1, steps // 4)):
        folder, _ = copied(lives, number, tmp_path / "i")
        assert in_child(update_until, update, folder, stop) == -9
        if before:
            assert None in (fault_of(folder, before), fault_of(folder, after))
        else:
            assert not is_index(folder) or fault_of(folder, after) is None
        if not is_index(folder) or fault_of(folder, after) is not None:
            assert in_child(update_until, update, folder, None) == 0
        assert fault_of(folder, after) is None


@pytest.mark.parametrize("number", [1, 3], ids=["add", "delete"])
def test_a_power_cut_leaves_the_generation_before_or_after(
    lives: list[tuple[Path, State]], number: int, tmp_path: Path
):
    update = UPDATES[number]
    folder, before = copied(lives, number, tmp_path / "i")
    after = update.after(before)
    tree, told = tree_of(folder), tmp_path / "events"
    assert in_child(record_update, update, folder, told) == 0
    events = list(map(json.loads, told.read_text().splitlines()))
    assert {event[0] for event in events} >= {"write", "fsync", "rename", "link"}
    disk, seen = Disk(tree), set()
    for place, event in enumerate(events):
        disk.apply(event)
        if place % 4 and place != len(events) - 1:
            continue
        for found in disk.trees():
            key = json.dumps(sorted((path, hash(content)) for path, content in found.items()))
            if key in seen:
                continue
            seen.add(key)
            cut = tmp_path / "cut"
            shutil.rmtree(cut, ignore_errors=True)
            write_tree(cut, found)
            faults = fault_of(cut, before), fault_of(cut, after)
            assert None in faults, (place, event[:2], faults)
    assert fault_of(cut, after) is None


@pytest.mark.parametrize("number", [1, 4], ids=["add", "compact"])
def test_a_full_disk_is_told_and_leaves_what_was_there(
    lives: list[tuple[Path, State]], number: int, tmp_path: Path
):
    update = UPDATES[number]
    for most in (0, 600):
        folder, before = copied(lives, number, tmp_path / "i")
        assert in_child(update_with_little_room, update, folder, most) == 3
        assert "too large" in (tmp_path / "told").read_text().lower()
        assert fault_of(folder, before) is None
    for fail in (1, 3, 7):  # the first makes a folder that is there, which no full disk hinders
        folder, before = copied(lives, number, tmp_path / "i")
        assert in_child(update_with_failing_step, update, folder, fail) == 3
        assert fault_of(folder, before) is None
        update.run(folder)
        assert fault_of(folder, update.after(before)) is None


def test_readers_see_whole_generations_while_one_writes(tmp_path: Path):
    seen = readers_and_a_writer(tmp_path / "i", seconds=5, readers=3)
    assert len(seen) == 3
    assert all(searches > 3 and generations > 1 for searches, generations in seen)
    assert ColRank.open(tmp_path / "i").verify().faults == ()


def test_a_second_writer_is_told_who_holds_the_index(lives: list[tuple[Path, State]], tmp_path: Path):
    folder, _ = copied(lives, 2, tmp_path / "i")
    with IndexWriter(folder), pytest.raises(IndexLocked, match=f"is being written by process {os.getpid()}"):
        ColRank.open(folder).delete(["a1"])
    assert ColRank.open(folder).delete(["a1"]) == ["a1"]


def test_an_index_that_was_moved_or_is_read_only_opens(lives: list[tuple[Path, State]], tmp_path: Path):
    folder, state = copied(lives, 3, tmp_path / "i")
    moved = tmp_path / "elsewhere" / "again"
    moved.parent.mkdir()
    folder.rename(moved)
    for path in (moved, *moved.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert fault_of(moved, state) is None
    for path in (moved, *moved.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_copy_made_during_a_write_is_a_generation_or_a_clear_error(
    lives: list[tuple[Path, State]], tmp_path: Path
):
    update = UPDATES[2]
    folder, before = copied(lives, 2, tmp_path / "i")
    told = tmp_path / "events"
    assert in_child(record_update, update, folder, told) == 0
    # What a copy finds that goes through the folder while the writer is at some step: each file is copied at
    # a time of its own, here before or after one step.
    source, _ = copied(lives, 2, tmp_path / "old")
    old, new = tree_of(source), tree_of(folder)
    for number in range(8):
        mixed = {name: content for at, (name, content) in enumerate(old.items()) if at % 8 >= number}
        mixed |= {name: content for at, (name, content) in enumerate(new.items()) if at % 8 < number}
        cut = tmp_path / f"cut-{number}"
        write_tree(cut, mixed)
        try:
            ColRank.open(cut)
        except (IndexDamaged, IndexMissing):
            continue
        assert None in (fault_of(cut, before), fault_of(cut, update.after(before)))
