"""The bench's simulated workers speak as real ones do: a master takes all that they report."""

from bench.master import conducted


def test_a_master_takes_every_report_of_the_crowd():
    told, crowd = conducted(2, 1, 0)
    assert (told["sentence"], crowd["reports"]) == (None, 2)
    assert told["counts"]["scheduled"] > 0
