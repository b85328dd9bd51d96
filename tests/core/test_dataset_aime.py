"""AIME problems: made, from files in the shapes of the public sets, and by name from the hub."""

import csv
import json
import os

import pytest

from r1perf.datasets.aime import DIRECTIVE, Aime
from r1perf.errors import DatasetError
from r1perf.grading import Grade, grade

PROBLEMS = [("What is 70 + 3?", 73), ("What is $2^{9}$?", 512), ("What is 0?", 0)]


def write(folder, kind, problem="problem", answer="answer", render=str):
    rows = [{"id": k, problem: text, answer: render(value)} for k, (text, value) in enumerate(PROBLEMS)]
    path = folder / f"set.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "json":
        path.write_text(json.dumps(rows))
    elif kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), path)
    return path.name


def asked(items, count):
    return {(turn.text, turn.expected) for item in range(count) for turn in items.conversation(item).turns}


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize(
    ("problem", "answer", "render"),
    [
        pytest.param("problem", "answer", str, id="text"),
        pytest.param("Problem", "Answer", int, id="capitals and numbers"),
        pytest.param("problem", "answer", "{:03d}".format, id="leading zeros"),
        pytest.param("problem", "answer", "{:0>6000}".format, id="6,000 digits"),
        pytest.param("problem", "answer", float, id="as a column with gaps keeps them"),
    ],
)
def test_files_of_every_shape_ask_the_same(tmp_path, kind, problem, answer, render):
    items = Aime(file=write(tmp_path, kind, problem, answer, render)).load(1, tmp_path)
    assert items.size == 3
    assert asked(items, 3) == {(text + DIRECTIVE, str(value)) for text, value in PROBLEMS}


def test_the_published_form_and_the_raw_one(tmp_path):
    name = write(tmp_path, "jsonl")
    published = Aime(file=name, sample="sequential").load(1, tmp_path).conversation(0)
    assert published.before == ()
    assert published.turns[0].text == ("What is 70 + 3?\nPlease reason step by step, and put your final answer within \\boxed{}.")
    assert Aime(file=name, sample="sequential", raw=True).load(1, tmp_path).conversation(0).turns[0].text == "What is 70 + 3?"


def test_more_items_than_problems_come_in_shuffled_passes(tmp_path):
    items = Aime(file=write(tmp_path, "jsonl")).load(1, tmp_path)
    for turn in range(20):
        assert len({items.conversation(3 * turn + k).turns[0].text for k in range(3)}) == 3


def test_solution_room_is_the_length_of_the_set_s_own_solution(tmp_path):
    row = {"problem": "p", "answer": 1, "solution": "x" * 700}
    (tmp_path / "s.jsonl").write_text(json.dumps(row))
    assert Aime(file="s.jsonl", solution_room=True).load(1, tmp_path).conversation(0).turns[0].max_tokens == 200
    assert Aime(file="s.jsonl").load(1, tmp_path).conversation(0).turns[0].max_tokens is None


@pytest.mark.parametrize(
    ("row", "says"),
    [
        pytest.param({"problem": "p"}, "has no `answer`; allowed: a whole number from 0 to 999", id="no answer"),
        pytest.param({"problem": "p", "answer": "1000"}, "`answer` is '1000'; allowed", id="too large"),
        pytest.param({"problem": "p", "answer": "9" * 6000}, "`answer` is '99999", id="6,000 digits"),
        pytest.param({"problem": "p", "answer": "-1"}, "`answer` is '-1'; allowed", id="negative"),
        pytest.param({"problem": "p", "answer": "x+1"}, "`answer` is 'x+1'; allowed", id="text"),
        pytest.param({"problem": "p", "answer": 1.5}, "`answer` is 1.5; allowed", id="fraction"),
        pytest.param({"question": "p", "answer": 1}, "has no `problem` or `Problem` (it has question, answer)", id="no problem"),
    ],
)
def test_a_wrong_row_is_told_with_its_line(tmp_path, row, says):
    (tmp_path / "bad.jsonl").write_text(json.dumps({"problem": "p", "answer": 1}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(DatasetError) as error:
        Aime(file="bad.jsonl").load(1, tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'bad.jsonl'} line 2: ")
    assert says in str(error.value)


def test_sets_without_answers_are_asked_without_grading(tmp_path):
    (tmp_path / "n.jsonl").write_text('{"problem": "p", "solution": "s"}')
    assert Aime(file="n.jsonl", grade=False).load(1, tmp_path).conversation(0).turns[0].expected is None


def test_made_problems_are_graded_by_their_own_answers():
    items = Aime().load(42)
    for item in range(200):
        turn = items.conversation(item).turns[0]
        assert turn.text.endswith(DIRECTIVE)
        assert grade(rf"Therefore \boxed{{{int(turn.expected):03d}}}", turn.expected).grade is Grade.RIGHT
    assert Aime(grade=False).load(42).conversation(0).turns[0].expected is None


def test_made_problems_repeat_seldom():
    items = Aime().load(42)
    assert len({items.conversation(item).turns[0].text for item in range(1000)}) > 850


def test_the_real_aime_2024_problems(shared):
    path = shared / "data" / "aime24.jsonl"
    if not path.exists():
        pytest.skip(f"needs {path.name}")
    items = Aime(file=path.name).load(42, path.parent)
    assert items.size == 30
    first, second = ([items.conversation(start + k).turns[0] for k in range(30)] for start in (0, 30))
    assert {turn.text for turn in first} == {turn.text for turn in second}
    assert first != second
    answers = {turn.expected for turn in first}
    assert {"204", "113", "371", "385", "110"} <= answers  # AIME 2024 I, 1 to 5
    assert all(answer == str(int(answer)) for answer in answers)
    assert items.expected.input_tokens == pytest.approx(116, abs=1)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Give a function that puts a library of the hub's name and this source before the real one."""

    def library(source):
        (tmp_path / "lib" / "datasets").mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / "datasets" / "__init__.py").write_text(source)
        paths = [str(tmp_path / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    return library


def split_of(rows):
    """Write a library whose split has these rows, and that notes what it was asked for."""
    return f"""
import os, pathlib
def load_dataset(name, *, split, revision):
    pathlib.Path(os.environ["ASKED"]).write_text(f"{{name}} {{split}} {{revision}}")
    print("noise on standard error", file=__import__("sys").stderr)
    return {rows!r}
"""


def test_the_hub_is_asked_by_name_split_and_revision(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    hub(split_of([{"ID": k, "Problem": text, "Answer": value} for k, (text, value) in enumerate(PROBLEMS)]))
    told = []
    items = Aime(hub="Maxwell-Jia/AIME_2024", split="test", revision="main").load(1, told=told.append)
    assert (tmp_path / "asked").read_text() == "Maxwell-Jia/AIME_2024 test main"
    assert told == ["asking the Hugging Face hub, or its cache, for Maxwell-Jia/AIME_2024"]
    assert asked(items, 3) == {(text + DIRECTIVE, str(value)) for text, value in PROBLEMS}
    assert items.digest == Aime(hub="Maxwell-Jia/AIME_2024", split="test", revision="main").load(1).digest


def test_a_hub_set_can_hold_what_json_has_not(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    hub("import datetime\n" + split_of([{"problem": "p", "answer": 7}]).replace("'p'", "'p', 'when': datetime.date(2024, 1, 1)"))
    assert Aime(hub="x/y").load(1).conversation(0).turns[0].expected == "7"


REFUSALS = [
    pytest.param(
        "def load_dataset(name, **_):\n    raise ConnectionError(\"Couldn't reach 'x/y' on the Hub\\nTraceback and more\")",
        "x/y (split train): cannot be loaded from the hub or its cache: Couldn't reach 'x/y' on the Hub; "
        "allowed: a public set's name, with network or after it was loaded once on this machine",
        id="out of reach",
    ),
    pytest.param(
        "import no_such_module",
        "x/y (split train): cannot be loaded from the hub or its cache: No module named 'no_such_module'; "
        "allowed: a public set's name, with network or after it was loaded once on this machine",
        id="a broken library",
    ),
    pytest.param(
        "import os\nos._exit(9)",
        "x/y (split train): cannot be loaded from the hub or its cache: its process ended with 9; "
        "allowed: a public set's name, with network or after it was loaded once on this machine",
        id="a crash",
    ),
    pytest.param(
        "raise ImportError(name='datasets')", "x/y: the hub needs its library: pip install 'r1perf[hub]'", id="no library"
    ),
    pytest.param("def load_dataset(name, **_):\n    return []", "x/y (split train): has no rows", id="no rows"),
    pytest.param(
        "def load_dataset(name, **_):\n    return [{'problem': 'p', 'answer': 'no'}]",
        "x/y (split train) row 1: `answer` is 'no'; allowed: a whole number from 0 to 999, or `grade = false` for sets without answers",
        id="a wrong row",
    ),
]


@pytest.mark.parametrize(("source", "says"), REFUSALS)
def test_a_hub_that_gives_nothing_is_one_sentence(hub, source, says):
    hub(source)
    with pytest.raises(DatasetError) as error:
        Aime(hub="x/y").load(1)
    assert str(error.value) == says


@pytest.mark.parametrize(
    "name", ["", "aime", "../../etc", "a/..", "/etc/passwd", "a/b/c", "a/b\n", "https://huggingface.co/x/y", "-x/y"]
)
def test_what_is_no_name_of_a_set_is_never_asked_for(monkeypatch, name):
    monkeypatch.setattr("r1perf.datasets.hub._run", lambda *_: pytest.fail("asked"))
    with pytest.raises(DatasetError) as error:
        Aime(hub=name).load(1)
    assert str(error.value) == f"{name!r} is no name of a set on the hub; allowed: owner/name, such as Maxwell-Jia/AIME_2024"
