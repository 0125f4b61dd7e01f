"""Where a result comes from is told without where somebody's files lie."""

import sys

from data_utils.provenance import describe_origin


def test_origin_names_revision_versions_and_hardware(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/home/me/main.py", "--data.corpus", "/home/me/reviews"])
    origin = describe_origin()
    assert origin["command"] == "main.py --data.corpus reviews"
    words = ["main.py", "--data=/home/me/x=y.csv", "--split=98,1,1", "a=/home/me/b=/home/me/c"]
    monkeypatch.setattr(sys, "argv", words)
    assert describe_origin()["command"] == "main.py --data=x=y.csv --split=98,1,1 a=c"
    assert origin["versions"]["torch"]
    assert origin["hardware"]["cores"] >= 1
    assert origin["git_revision"]
