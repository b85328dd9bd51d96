"""Reading data files: every format gives the same rows, and what is wrong is told with file, line and reason."""

import csv
import gzip
import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.datasets import files
from r1perf.datasets.files import cell, open_rows, read_all, text_of
from r1perf.datasets.prompts import Prompts
from r1perf.errors import DatasetError
from r1perf.scenario import load

ROWS = [{"prompt": "one, two", "answer": "1"}, {"prompt": "zwei\nLügen", "answer": "2"}, {"prompt": '"three"', "answer": "3"}]


def write(folder, kind):
    path = folder / f"data.{kind}"
    if kind in ("jsonl", "ndjson"):
        path.write_text("\n\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
    elif kind == "json":
        path.write_text(json.dumps(ROWS, indent=1), encoding="utf-8")
    elif kind == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["prompt", "answer"])
            writer.writeheader()
            writer.writerows(ROWS)
    else:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "ndjson", "json", "csv", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path, kind):
    rows = open_rows(write(tmp_path, kind).name, tmp_path)
    assert [rows.row(k) for k in range(len(rows))] == ROWS
    assert len(rows.digest) == 64


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("jsonl", ["line 1", "line 3", "line 5"]),
        ("json", ["item 1", "item 2", "item 3"]),
        ("csv", ["line 2", "line 3", "line 5"]),
        ("parquet", ["row 1", "row 2", "row 3"]),
    ],
)
def test_rows_know_their_place(tmp_path, kind, places):
    path = write(tmp_path, kind)
    rows = open_rows(path.name, tmp_path)
    assert [rows.where(k) for k in range(3)] == [f"{path} {place}" for place in places]


def test_text_is_a_prompt_a_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\n\r\n two \n".encode())
    rows = open_rows("a.txt", tmp_path)
    assert [rows.row(k) for k in range(len(rows))] == [{"prompt": "one"}, {"prompt": " two "}]
    assert rows.where(1).endswith("a.txt line 3")


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"prompt":"x"}\r\n')
    assert open_rows("a.jsonl", tmp_path).row(0) == {"prompt": "x"}


def test_a_byte_order_mark_is_no_part_of_a_list(tmp_path):
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf[{"prompt":"x"}]')
    assert open_rows("a.json", tmp_path).row(0) == {"prompt": "x"}


@pytest.mark.parametrize(("name", "place"), [("a.jsonl", "line 2"), ("a.json", "item 2")])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path.write_bytes(b""), id="emptied"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:9]), id="cut"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes() + b" "), id="longer"),
        pytest.param(lambda path: (path.write_bytes(b"x" * path.stat().st_size), os.utime(path, (1, 1))), id="overwritten"),
    ],
)
def test_a_file_that_changes_while_it_is_in_use_is_named(tmp_path, name, place, change):
    """Without a look, the memory of a page that is gone ends the process by a signal."""
    path = tmp_path / name
    path.write_bytes(b'[{"p": 1},\n{"p": 2}]' if name == "a.json" else b'{"p": 1}\n{"p": 2}\n')
    rows = open_rows(name, tmp_path)
    change(path)
    with pytest.raises(
        DatasetError, match=f"{name} {place}: the file was changed after it was read; it must stay as it is until"
    ):
        rows.row(1)


def test_a_file_that_is_replaced_or_removed_stays_readable(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"p": 1}')
    rows = open_rows("a.jsonl", tmp_path)
    (tmp_path / "new").write_text('{"p": 2, "longer": 1}')
    (tmp_path / "new").replace(path)
    assert rows.row(0) == {"p": 1}
    path.unlink()
    assert rows.row(0) == {"p": 1}


def test_csv_cells_may_be_long(tmp_path):
    long = "x" * 300_000
    (tmp_path / "a.csv").write_text(f"prompt\n{long}\n")
    assert open_rows("a.csv", tmp_path).row(0) == {"prompt": long}
    assert csv.field_size_limit() == 131072  # other people's readers are left as they were


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        pytest.param("no.jsonl", None, "no.jsonl: no such file", id="missing"),
        pytest.param("a.jsonl", b"", "a.jsonl: is empty", id="empty"),
        pytest.param("a.jsonl", b"\n \n", "a.jsonl: has no rows", id="blank"),
        pytest.param("a.xlsx", b"x", "a.xlsx: not a kind of data file that can be read; allowed: .jsonl", id="kind"),
        pytest.param("a.jsonl", b'{"p":1}\n{"p":\n', "a.jsonl line 2: Input data was truncated", id="json line"),
        pytest.param("a.jsonl", b'{"p":1}\n[1]\n', "a.jsonl line 2: Expected `object`, got `array`", id="not an object"),
        pytest.param("a.jsonl", b'{"p":"\xff"}\n', "a.jsonl line 1: ", id="not utf-8"),
        pytest.param("a.json", b'{"p":1}', "a.json: not a JSON list of objects", id="json object"),
        pytest.param("a.json", b"[]", "a.json: has no rows", id="json empty"),
        pytest.param("a.json", b"[{}, 3]", "a.json item 2: Expected `object`, got `int`", id="json item"),
        pytest.param("a.csv", b"p,q\n1,2\n1\n", "a.csv line 3: has not as many cells as the header (2)", id="short row"),
        pytest.param("a.csv", b"p,q\n1,2\n1,2,3\n", "a.csv line 3: has not as many cells as the header (2)", id="long row"),
        pytest.param("a.csv", b'p\n"1\n', "a.csv line 2: unexpected end of data", id="open quote"),
        pytest.param("a.csv", b"p\n", "a.csv: has no rows", id="header only"),
        pytest.param("a.csv", b"p,q,p\n1,2,3\n", "a.csv line 1: the header names `p` more than once", id="column twice"),
        pytest.param(
            "a.csv", b"p\n" + b"1\n" * 9000 + b"caf\xe9\n", "a.csv line 9002: is not UTF-8 text (byte 0xe9)", id="latin-1"
        ),
        pytest.param("a.csv", "p\n1\n".encode("utf-16"), "a.csv: is UTF-16 text; allowed: UTF-8", id="utf-16"),
        pytest.param("a.txt", b"\x1f\x8b\x08\xff", "a.txt: is compressed (gzip); unpack it first", id="gzip"),
        pytest.param("a.txt", b"ok\n\xff\xfe", "a.txt line 2: is not UTF-8 text (byte 0xff)", id="text"),
        pytest.param("a.jsonl", gzip.compress(b"{}"), "a.jsonl: is compressed (gzip); unpack it first", id="gzip json lines"),
        pytest.param("a.json", gzip.compress(b"[]"), "a.json: is compressed (gzip); unpack it first", id="gzip json"),
        pytest.param("a.jsonl", "{}".encode("utf-16"), "a.jsonl: is UTF-16 text; allowed: UTF-8", id="utf-16 json lines"),
        pytest.param("a.json", "[]".encode("utf-16"), "a.json: is UTF-16 text; allowed: UTF-8", id="utf-16 json"),
        pytest.param("a.jsonl", b'{}\n{"a":' + b"[" * 9000 + b"}", "a.jsonl line 2: is nested too deeply", id="deep json line"),
        pytest.param("a.json", b"[" * 9000, "a.json: is nested too deeply", id="deep json"),
        pytest.param(
            "a.json", b'[{"a":' + b"[" * 9000 + b"]" * 9000 + b"}]", "a.json: is nested too deeply", id="deep json item"
        ),
        pytest.param("a.parquet", b"nothing" * 9, "Parquet magic bytes not found", id="parquet"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, name, content, says):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError) as error:
        list(read_all(open_rows(name, tmp_path), dict))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_is_not_a_file(tmp_path):
    (tmp_path / "d.jsonl").mkdir()
    with pytest.raises(DatasetError, match=r"d\.jsonl: not a file"):
        open_rows("d.jsonl", tmp_path)


def test_parquet_without_its_library(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DatasetError, match=r"Parquet needs pyarrow: pip install 'r1perf\[parquet\]'"):
        open_rows("a.parquet", tmp_path)


def test_a_missing_column_names_what_is_there():
    with pytest.raises(ValueError, match=r"has no `problem` or `Problem` \(it has question, answer\)"):
        text_of({"question": "x", "answer": "1"}, "problem", "Problem")
    with pytest.raises(ValueError, match=r"`problem` must be text that is not empty, not 3"):
        text_of({"problem": 3}, "problem")
    with pytest.raises(ValueError, match=r"has no `prompt` \(it has nothing\)"):
        text_of({"prompt": None}, "prompt")


@pytest.mark.parametrize(
    ("value", "held"),
    [(float("nan"), None), (5.0, 5), (5.5, 5.5), (float("inf"), float("inf")), (None, None), ("", ""), (0, 0), ([], [])],
    ids=repr,
)
def test_numbers_that_a_table_keeps_as_floats_are_what_they_were(value, held):
    assert cell({"a": value}, "a") == held
    assert type(cell({"a": value}, "a")) is type(held)
    assert cell({"a": value, "b": "else"}, "a", "b") == ("else" if held is None else held)


def test_json_lines_stay_in_the_file(tmp_path):
    with (tmp_path / "big.jsonl").open("w") as file:
        for number in range(20_000):
            file.write(f'{{"prompt": "{"x" * 1000} {number}"}}\n')
    tracemalloc.start()
    try:
        rows = open_rows("big.jsonl", tmp_path)
        assert sum(1 for _ in read_all(rows, len)) == 20_000
        assert rows.row(19_999)["prompt"].endswith(" 19999")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_000_000  # of 20 MB: three numbers a line


@given(
    st.lists(st.dictionaries(st.text(), st.text(), min_size=1), min_size=1, max_size=20), st.sampled_from(["\n", "\r\n", "\n\n"])
)
def test_any_lines_come_back(tmp_path_factory, rows, newline):
    folder = tmp_path_factory.mktemp("lines")
    (folder / "a.jsonl").write_bytes(newline.join(json.dumps(row) for row in rows).encode())
    opened = open_rows("a.jsonl", folder)
    assert [opened.row(k) for k in range(len(opened))] == rows


@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.csv", "p.txt"])
def test_the_reading_of_a_large_file_is_told(tmp_path, monkeypatch, name):
    prompts = [f"prompt {n}" for n in range(25)]
    write = {
        ".jsonl": "\n".join(json.dumps({"prompt": prompt}) for prompt in prompts),
        ".json": json.dumps([{"prompt": prompt} for prompt in prompts]),
        ".csv": "\n".join(["prompt", *prompts]),
        ".txt": "\n".join(prompts),
    }
    (tmp_path / name).write_text(write[Path(name).suffix])
    told = []
    Prompts(file=name).load(1, tmp_path, told=told.append)
    assert told == []
    monkeypatch.setattr(files, "LARGE", (tmp_path / name).stat().st_size)
    Prompts(file=name).load(1, tmp_path, told=told.append)
    assert told == [f"loading {name} (0 MB)", *(f"{n} of 25 rows are read" for n in (7, 14, 21))]


def test_a_scenario_says_whose_file_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGE", 1)
    (tmp_path / "p.txt").write_text("one\ntwo")
    made = load({
        "name": "x", "requests": 1, "target": {"url": "http://h/v1", "model": "m"}, "arrivals": {"kind": "poisson", "rate": "1/s"},
        "workload": {"w": {"dataset": {"kind": "prompts", "file": "p.txt"}}},
    })  # fmt: skip
    told = []
    made.items(tmp_path, told=told.append)
    assert told == ["workload w: loading p.txt (0 MB)", "workload w: 1 of 2 rows are read"]
