"""Which files are found, in which order, and what they are called."""

import os
from pathlib import Path

import pytest

from colrank.corpus import SUFFIXES, find_files
from colrank.errors import CorpusError, InputError
from colrank.types import Problems

BEIR = "files of BEIR queries and judgements left out"
UNREADABLE = "files that cannot be read skipped"


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def labels(*paths: Path, problems: Problems | None = None) -> list[str]:
    return [file.label for file in find_files(paths, Problems() if problems is None else problems)]


def test_suffixes_are_the_documented_ones():
    text = {".txt", ".md", ".rst", ".html", ".htm", ".jsonl", ".csv", ".tsv"}
    assert set(SUFFIXES) == text | {f"{suffix}.gz" for suffix in text} | {".parquet", ".arrow"}


def test_folder_is_read_recursively_in_the_order_of_names(tmp_path):
    write(tmp_path / "corpus", "b.md", "a/z.txt", "a.txt", "c/d/e.HTML", "A.rst", "a/b.jsonl.gz")
    expected = ["A.rst", "a.txt", "a/b.jsonl.gz", "a/z.txt", "b.md", "c/d/e.HTML"]
    assert labels(tmp_path / "corpus") == [f"corpus/{name}" for name in expected]


def test_files_have_their_path_and_size(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"12345")
    [file] = find_files([tmp_path / "a.txt"], Problems())
    assert (file.path.read_bytes(), file.label, file.size) == (b"12345", "a.txt", 5)


def test_hidden_files_and_folders_are_left_out_silently(tmp_path):
    write(tmp_path / "c", "a.txt", ".b.txt", ".git/c.txt", ".x")
    problems = Problems()
    assert labels(tmp_path / "c", problems=problems) == ["c/a.txt"]
    assert not problems


def test_hidden_paths_that_were_asked_for_are_read(tmp_path):
    write(tmp_path / ".notes", "a.txt", ".b.txt")
    assert labels(tmp_path / ".notes", tmp_path / ".notes" / ".b.txt") == [".notes/a.txt", ".b.txt"]


def test_given_paths_keep_their_order(tmp_path):
    write(tmp_path, "z.txt", "c/a.txt", "a.txt")
    assert labels(tmp_path / "z.txt", tmp_path / "c", tmp_path / "a.txt") == ["z.txt", "c/a.txt", "a.txt"]


def test_unknown_types_in_a_folder_are_counted(tmp_path):
    write(tmp_path / "c", "a.txt", "b.pdf", "d/e.tar.gz", "Makefile")
    problems = Problems()
    assert labels(tmp_path / "c", problems=problems) == ["c/a.txt"]
    assert problems.kinds() == ["files of an unknown type skipped"]
    assert problems.names("files of an unknown type skipped") == ["c/Makefile", "c/b.pdf", "c/d/e.tar.gz"]


def test_no_path_is_an_error():
    with pytest.raises(InputError, match="No path"):
        find_files([], Problems())


def test_missing_path_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere does not exist"):
        find_files([tmp_path / "nowhere"], Problems())


def test_given_file_of_unknown_type_names_the_known_ones(tmp_path):
    write(tmp_path, "a.pdf")
    with pytest.raises(InputError, match=r"a\.pdf is of an unknown type; .*\.jsonl .*\.parquet"):
        find_files([tmp_path / "a.pdf"], Problems())


def test_folder_with_nothing_to_read_is_named(tmp_path):
    write(tmp_path / "c", "a.pdf")
    with pytest.raises(InputError, match=r"no document of a known kind in .*/c; colrank reads \.txt"):
        find_files([tmp_path / "c"], Problems())


def test_same_file_is_read_once(tmp_path):
    write(tmp_path / "c", "a.txt", "d/b.txt")
    (tmp_path / "link.txt").symlink_to(tmp_path / "c" / "a.txt")
    given = (tmp_path / "c" / "d", tmp_path / "c", tmp_path / "c", tmp_path / "link.txt")
    assert labels(*given, tmp_path / "c" / ".." / "c" / "a.txt") == ["d/b.txt", "c/a.txt"]


def test_real_names_go_before_links_in_a_folder(tmp_path):
    write(tmp_path / "c", "b.txt", "z/x.txt")
    (tmp_path / "c" / "a.txt").symlink_to(tmp_path / "c" / "b.txt")
    (tmp_path / "c" / "y").symlink_to(tmp_path / "c" / "z")
    assert labels(tmp_path / "c") == ["c/b.txt", "c/z/x.txt"]


def test_linked_folders_are_read_and_loops_left_out(tmp_path):
    write(tmp_path, "c/d/a.txt", "other/b.txt", "beside.txt")
    (tmp_path / "c" / "d" / "up").symlink_to(tmp_path / "c")
    (tmp_path / "c" / "far_up").symlink_to(tmp_path)
    (tmp_path / "c" / "self.txt").symlink_to("self.txt")
    (tmp_path / "c" / "out").symlink_to(tmp_path / "other")
    problems = Problems()
    assert labels(tmp_path / "c", problems=problems) == ["c/d/a.txt", "c/out/b.txt"]
    assert not problems


def test_broken_links_and_pipes_are_counted(tmp_path):
    write(tmp_path / "c", "a.txt")
    (tmp_path / "c" / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    os.mkfifo(tmp_path / "c" / "pipe.txt")
    problems = Problems()
    assert labels(tmp_path / "c", problems=problems) == ["c/a.txt"]
    assert problems.names(UNREADABLE) == ["c/gone.txt", "c/pipe.txt"]
    with pytest.raises(CorpusError, match=r"c/gone\.txt cannot be read"):
        find_files([tmp_path / "c"], Problems(), strict=True)


def test_given_pipe_is_an_error(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(InputError, match="not a regular file"):
        find_files([tmp_path / "pipe.txt"], Problems())


def test_folder_that_cannot_be_listed_is_counted(tmp_path, monkeypatch):
    write(tmp_path / "c", "a.txt", "shut/b.txt")
    scandir = os.scandir

    def refuse(path):
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    problems = Problems()
    assert labels(tmp_path / "c", problems=problems) == ["c/a.txt"]
    assert problems.names("folders that cannot be read skipped") == ["c/shut"]


def test_beir_folder_gives_only_its_corpus(tmp_path):
    write(tmp_path / "nf", "corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "qrels/dev.tsv", "README.md")
    problems = Problems()
    assert labels(tmp_path / "nf", problems=problems) == ["nf/corpus.jsonl"]
    assert problems.names(BEIR) == ["nf/queries.jsonl", "nf/qrels/dev.tsv", "nf/qrels/test.tsv"]
    assert problems.names("files beside a BEIR corpus left out") == ["nf/README.md"]


@pytest.mark.parametrize("beside", ["queries.jsonl.gz", "qrels/test.tsv"])
def test_beir_folder_is_known_by_queries_or_qrels_at_any_depth(tmp_path, beside):
    write(tmp_path / "sets", "nf/corpus.jsonl.gz", f"nf/{beside}", "a.txt")
    problems = Problems()
    assert labels(tmp_path / "sets", problems=problems) == ["sets/a.txt", "sets/nf/corpus.jsonl.gz"]
    assert problems.names(BEIR) == [f"sets/nf/{beside}"]


def test_corpus_without_queries_or_queries_without_corpus_are_ordinary(tmp_path):
    write(tmp_path / "a", "corpus.jsonl", "more.jsonl")
    write(tmp_path / "b", "queries.jsonl", "more.jsonl")
    assert labels(tmp_path / "a", tmp_path / "b") == [
        "a/corpus.jsonl",
        "a/more.jsonl",
        "b/more.jsonl",
        "b/queries.jsonl",
    ]


def test_folders_of_one_name_are_told_apart_by_their_parents(tmp_path):
    write(tmp_path, "x/v1/docs/a.txt", "y/v1/docs/b.txt", "y/w/c.txt")
    given = [tmp_path / "x/v1/docs", tmp_path / "y/v1/docs", tmp_path / "y/w"]
    assert labels(*given) == ["x/v1/docs/a.txt", "y/v1/docs/b.txt", "w/c.txt"]


def test_files_of_one_name_are_told_apart_by_their_parents(tmp_path):
    write(tmp_path, "x/a.txt", "y/a.txt", "y/b.txt")
    given = [tmp_path / "x/a.txt", tmp_path / "y/a.txt", tmp_path / "y/b.txt"]
    assert labels(*given) == ["x/a.txt", "y/a.txt", "b.txt"]


def test_a_longer_name_does_not_clash_with_a_folder(tmp_path):
    write(tmp_path, "p/x/a.txt", "q/y/a.txt", "r/x/a.txt")
    found = labels(tmp_path / "p/x/a.txt", tmp_path / "q/y/a.txt", tmp_path / "r/x")
    assert found == ["p/x/a.txt", "y/a.txt", "r/x/a.txt"]


def test_labels_are_the_same_from_inside_the_folder(tmp_path, monkeypatch):
    write(tmp_path / "c", "d/a.txt")
    monkeypatch.chdir(tmp_path / "c" / "d")
    assert labels(Path()) == ["d/a.txt"]
    assert labels(Path("..")) == ["c/d/a.txt"]
    assert labels(Path("a.txt")) == ["a.txt"]


def test_names_that_are_not_utf8_give_labels_that_are(tmp_path):
    (tmp_path / "c").mkdir()
    try:
        Path(os.fsdecode(os.fsencode(tmp_path / "c") + b"/caf\xe9.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    [label] = labels(tmp_path / "c")
    assert label == "c/caf\\udce9.txt"
