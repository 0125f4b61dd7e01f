"""Downloads from a local server: whole, cut off, wrong, missing, silent."""

import hashlib
import random
import signal
import time
from dataclasses import replace

import pytest

from data_utils.published_sets import registry
from data_utils.published_sets.registry import (
    AMAZON,
    DATASETS,
    Dataset,
    RemoteFile,
    download_dataset,
    find_dataset,
)
from mlstm_sentiment.errors import InputError
from tests.data_utils.web_server import served
from tests.house.sources import SOURCES, imports_of
from tests.support.folders import contents
from tests.support.runs import ROOT, assert_refused, run, start

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def download(site, folder, sha256=SHA256):
    file = RemoteFile("reviews.gz", f"{site.address}/remote.gz", sha256)
    dataset = Dataset("reviews", "https://example.org/page", "free", (file,))
    return download_dataset(dataset, folder)


def names(folder):
    return sorted(path.name for path in contents(folder))


@pytest.mark.parametrize("sha256", [SHA256, None])
@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
def test_a_whole_file_is_downloaded(tmp_path, sha256, headers):
    with served(CONTENT, headers=headers) as site:
        (path,) = download(site, tmp_path, sha256)
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["reviews.gz"]


def test_a_file_that_is_there_is_checked_and_not_asked_for(tmp_path):
    with served(CONTENT) as site:
        (tmp_path / "reviews.gz").write_bytes(CONTENT)
        download(site, tmp_path)
        (tmp_path / "reviews.gz").write_bytes(CONTENT[:-1])
        with pytest.raises(InputError, match="not the published file"):
            download(site, tmp_path)
    assert site.asked == []


def test_a_download_that_was_cut_off_leaves_no_file_and_starts_over(tmp_path):
    with served(CONTENT, cuts=[100_000]) as site:
        with pytest.raises(InputError, match=r"100000 bytes read.*run the command again"):
            download(site, tmp_path, sha256=None)
        assert names(tmp_path) == []
        (path,) = download(site, tmp_path, sha256=None)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"statuses": [404]}, "404 .*https://example.org/page and save it as"),
        ({"statuses": [503]}, "503 .*run the command again"),
        ({"kind": "text/html; charset=utf-8"}, "a web page, not the file"),
        ({"claims": 10**17}, "has 100,000,000,000,000,000 bytes, but"),  # more than the disk
    ],
)
def test_a_server_that_does_not_send_the_file_is_reported(tmp_path, server, message):
    with served(CONTENT, **server) as site, pytest.raises(InputError, match=message):
        download(site, tmp_path, sha256=None)
    assert len(site.asked) == 1
    with pytest.raises(InputError, match="refused"):  # nobody serves any more
        download(site, tmp_path)
    assert names(tmp_path) == []


def test_a_silent_server_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_TIMEOUT_SECONDS", 0.2)
    with (
        served(CONTENT, cuts=[100_000], stalls=True) as site,
        pytest.raises(InputError, match="timed out"),
    ):
        download(site, tmp_path)
    assert names(tmp_path) == []


def test_interrupted_by_the_user_and_run_again(tmp_path):
    folder = tmp_path / "amazon_2014"
    with served(CONTENT, cuts=[100_000], stalls=True) as site:
        url = f"{site.address}/reviews_{{category}}.json.gz"
        code = (
            "import runpy, sys; sys.path.append('scripts'); "
            "from data_utils.published_sets.registry import AMAZON; "
            f"AMAZON['2014']['url'] = {url!r}; "
            "runpy.run_path('scripts/download_data.py', run_name='__main__')"
        )
        command = ("-c", code, "amazon:Baby", "--output", tmp_path)
        process = start(*command)
        while not site.sent:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=30)[0]
        assert process.returncode == 130, output
        assert names(folder) == []
        again = run(*command)
    assert again.returncode == 0, again.stderr
    assert (folder / "reviews_Baby.json.gz").read_bytes() == CONTENT
    assert "to be cited" in again.stdout
    assert SHA256 in again.stderr


def test_the_script_refuses_in_one_line(tmp_path, run_here, monkeypatch):
    command = ("scripts/download_data.py", "sst", "--output", tmp_path / "data")
    sst = find_dataset("sst")
    with served(CONTENT) as site:
        files = tuple(replace(file, url=f"{site.address}/{file.name}") for file in sst.files)
        monkeypatch.setitem(DATASETS, "sst", replace(sst, files=files))
        process = run_here(*command)
    assert_refused(process, "not the published file", SHA256, "train.csv")
    assert names(tmp_path / "data" / "sst") == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dbpedia", "'dbpedia' is unknown; known: sst, imdb, amazon:<category>"),
        ("mr", r"get MR by hand from https://\S+ as mr/rt-polarity.neg, mr/rt-polarity.pos; known"),
        ("amazon", "no such category; known: Amazon_Instant"),
        ("amazon:Toys", "no such category; did you mean Toys_and_Games"),
    ],
)
def test_unknown_names_are_refused_before_anybody_is_asked(name, words):
    with pytest.raises(InputError, match=words):
        find_dataset(name)


def test_names_and_addresses():
    assert find_dataset("amazon:Books", "2018").files[0].url.endswith("/Books.json.gz")
    assert find_dataset("amazon:Books").name == "amazon_2014"
    with pytest.raises(InputError, match="--release is for amazon:<category>, not for imdb"):
        find_dataset("imdb", "2018")
    assert find_dataset("imdb").files[0].sha256 is not None
    files = find_dataset("sst").files
    assert [file.name for file in files] == ["train.csv", "val.csv", "test.csv"]
    assert files[1].url.endswith("/dev_binary_sent.csv")
    assert [len(set(AMAZON[year]["categories"])) for year in AMAZON] == [24, 29, 34]


def test_nothing_else_talks_to_a_server():
    talking = {"urllib", "http", "requests", "pooch", "httpx", "ftplib"}
    users = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if {name.split(".")[0] for name in imports_of(path)} & talking
    }
    assert users == {
        "mlstm_sentiment/server/application.py",  # answers on this machine
        "mlstm_sentiment/reading/inputs.py",  # names the path of a file:// address
        "data_utils/published_sets/registry.py",
    }
