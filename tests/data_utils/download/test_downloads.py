"""Downloads from a local server: whole, cut off, changed, wrong, missing, silent."""

import hashlib
import random
import signal

import filelock
import pytest

from data_utils.download import downloads
from data_utils.download.downloads import Dataset, RemoteFile, download_dataset
from data_utils.published_sets.registry import AMAZON, find_dataset
from model.errors import InputError
from model.files.storage import read_json
from tests.data_utils.web_server import served
from tests.house.sources import SOURCES, imports_of
from tests.support.runs import ROOT, assert_refused, run, start, wait_for

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def one_attempt(monkeypatch):
    monkeypatch.setattr(downloads, "ATTEMPTS", 1)


def download(site, folder, sha256=SHA256):
    file = RemoteFile("reviews.gz", f"{site.address}/remote.gz", sha256)
    dataset = Dataset("https://example.org/page", "free", (file,))
    return download_dataset(dataset, folder)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_whole_file_is_checked_and_recorded(tmp_path, sha256):
    with served(CONTENT) as site:
        (path,) = download(site, tmp_path, sha256)
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["reviews.gz", "reviews.gz.source.json"]
    record = read_json(tmp_path / "reviews.gz.source.json")
    assert record["sha256"] == SHA256
    assert record["sha256_was_known"] is (sha256 is not None)
    assert (record["bytes"], record["etag"]) == (len(CONTENT), '"v1"')


def test_a_file_that_is_there_is_checked_and_not_asked_for(tmp_path):
    with served(CONTENT) as site:
        (tmp_path / "reviews.gz").write_bytes(CONTENT)
        download(site, tmp_path)
        (tmp_path / "reviews.gz").write_bytes(CONTENT[:-1])
        with pytest.raises(InputError, match="not the published file"):
            download(site, tmp_path)
    assert site.asked == []


def test_a_download_that_was_cut_off_continues(tmp_path):
    with served(CONTENT, cuts=[100_000, 50_000]) as site:
        (path,) = download(site, tmp_path)
    assert site.sent == [(0, 100_000), (100_000, 150_000), (150_000, 300_000)]
    assert site.asked[1]["Range"] == "bytes=100000-"
    assert site.asked[1]["If-Range"] == '"v1"'
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("version", "validator"),
    [
        ({"etag": 'W/"v1"', "last_modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, "Mon, 01 Jan"),
        ({"etag": None, "last_modified": None}, None),
    ],
)
def test_resuming_without_a_strong_etag(tmp_path, version, validator):
    with served(CONTENT, cuts=[1000], **version) as site:
        (path,) = download(site, tmp_path)
    assert path.read_bytes() == CONTENT
    assert site.sent[1] == (1000, 300_000)
    assert (site.asked[1].get("If-Range") or "").startswith(validator or "")


@pytest.mark.parametrize(
    ("server", "sha256"),
    [({"etag": None}, None), ({"resumes": False}, SHA256)],
    ids=["neither version nor digest", "no resuming"],
)
def test_what_cannot_be_resumed_starts_again(tmp_path, server, sha256):
    with served(CONTENT, cuts=[1000], **server) as site:
        (path,) = download(site, tmp_path, sha256)
    assert site.sent == [(0, 1000), (0, 300_000)]
    assert path.read_bytes() == CONTENT


def test_a_server_that_always_cuts_and_cannot_resume_is_given_up(tmp_path):
    with (
        served(CONTENT, cuts=[1000] * 9, resumes=False) as site,
        pytest.raises(InputError, match="cut off after 1,000 of 300,000 bytes"),
    ):
        download(site, tmp_path)
    assert len(site.asked) == downloads.ATTEMPTS


@pytest.mark.usefixtures("one_attempt")
def test_a_file_that_changed_between_two_requests_starts_again(tmp_path):
    with served(CONTENT, cuts=[100_000]) as site:
        with pytest.raises(InputError, match="cut off"):
            download(site, tmp_path, sha256=None)
        site.content, site.etag = CONTENT[::-1], '"v2"'
        (path,) = download(site, tmp_path, sha256=None)
    assert site.sent[1] == (0, 300_000)
    assert path.read_bytes() == CONTENT[::-1]
    assert read_json(tmp_path / "reviews.gz.source.json")["etag"] == '"v2"'


@pytest.mark.parametrize(("more", "sent"), [(b"", []), (b"more", [(0, 300_000)])])
def test_a_part_that_is_whole_is_used_and_a_longer_one_got_again(tmp_path, more, sent):
    (tmp_path / "reviews.gz.part").write_bytes(CONTENT + more)
    with served(CONTENT) as site:
        (path,) = download(site, tmp_path)
    assert site.sent == sent
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"statuses": [404] * 9}, "answered 404.*https://example.org/page.*--mirror"),
        ({"kind": "text/html; charset=utf-8"}, "a web page, not the file"),
    ],
)
def test_a_dead_address_is_reported_at_once(tmp_path, server, message):
    with served(CONTENT, **server) as site, pytest.raises(InputError, match=message):
        download(site, tmp_path, sha256=None)
    assert len(site.asked) == 1
    assert names(tmp_path) == []


def test_a_server_that_is_busy_is_asked_again(tmp_path):
    with served(CONTENT, statuses=[503, 429]) as site:
        (path,) = download(site, tmp_path)
    assert path.read_bytes() == CONTENT
    assert len(site.asked) == 3


@pytest.mark.usefixtures("one_attempt")
def test_a_silent_server_is_given_up_and_its_bytes_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT_SECONDS", 0.2)
    with (
        served(CONTENT, cuts=[100_000], stalls=True) as site,
        pytest.raises(InputError, match="timed out; 100,000 bytes are kept"),
    ):
        download(site, tmp_path)
    assert (tmp_path / "reviews.gz.part").read_bytes() == CONTENT[:100_000]


def test_no_server_at_all(tmp_path):
    with served(CONTENT) as site:
        pass
    with pytest.raises(InputError, match=r"refused.*--mirror"):
        download(site, tmp_path)


def test_too_little_disk_space_is_reported_before_the_download(tmp_path):
    with (
        served(CONTENT, claims=10**17) as site,
        pytest.raises(InputError, match="100,000,000,000,000,000 bytes are still to come"),
    ):
        download(site, tmp_path)


@pytest.mark.parametrize("largest_file", [200_000], indirect=True)
def test_a_full_disk_is_one_line_and_no_second_attempt(tmp_path, largest_file):
    with served(CONTENT) as site, pytest.raises(InputError, match="File too large; fix that"):
        download(site, tmp_path)
    assert len(site.asked) == 1
    assert (tmp_path / "reviews.gz.part").read_bytes() == CONTENT[:largest_file]


def test_two_processes_do_not_write_one_file(tmp_path):
    with (
        served(CONTENT) as site,
        filelock.FileLock(tmp_path / ".reviews.gz.lock"),
        pytest.raises(InputError, match="another process"),
    ):
        download(site, tmp_path)
    assert site.asked == []


def test_interrupted_by_the_user_and_run_again(tmp_path):
    command = ("scripts/download_data.py", "amazon:Baby", "--output", tmp_path)
    part = tmp_path / "amazon_2014" / "reviews_Baby.json.gz.part"
    with served(CONTENT, cuts=[100_000], stalls=True) as site:
        mirror = ("--mirror", site.address)
        process = start(*command, *mirror)
        wait_for(part.with_name("reviews_Baby.json.gz.part.json"), bool)
        while not part.exists() or part.stat().st_size < 100_000:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=30)[0]
        assert process.returncode == 130, output
        assert "100,000 bytes kept" in output
        again = run(*command, *mirror)
    assert again.returncode == 0, again.stderr
    assert site.sent == [(0, 100_000), (100_000, 300_000)]
    assert (tmp_path / "amazon_2014" / "reviews_Baby.json.gz").read_bytes() == CONTENT
    assert "to be cited" in again.stdout
    assert SHA256 in again.stderr


def test_the_script_refuses_in_one_line(tmp_path):
    command = ("scripts/download_data.py", "sst", "--output", tmp_path / "data")
    with served(CONTENT) as site:
        process = run(*command, "--mirror", site.address)
    assert_refused(process, "not the published file", SHA256, "train_binary_sent.csv")
    assert names(tmp_path / "data" / "sst") == []


@pytest.mark.parametrize("name", ["data", "data/sst"])
def test_a_file_in_place_of_the_folder_is_refused(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    process = run("scripts/download_data.py", "sst", "--output", tmp_path / "data")
    assert_refused(process, f"{tmp_path / name}: is a file; name a folder")
    assert (tmp_path / name).read_text() == "mine"


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


@pytest.mark.parametrize("mirror", ["file:///etc", "http://[::1", "http://host:port", "host/data"])
def test_a_mirror_is_an_address(mirror):
    with pytest.raises(InputError, match="--mirror"):
        find_dataset("sst", mirror=mirror)


def test_names_and_addresses():
    assert find_dataset("amazon:Books", "2018").files[0].url.endswith("/Books.json.gz")
    assert find_dataset("amazon:Books").name == "amazon_2014"
    with pytest.raises(InputError, match="--release is for amazon:<category>, not for imdb"):
        find_dataset("imdb", "2018")
    assert find_dataset("imdb").files[0].sha256 is not None
    files = find_dataset("sst", mirror="http://localhost/sst/").files
    assert [file.name for file in files] == ["train.csv", "val.csv", "test.csv"]
    assert files[1].url == "http://localhost/sst/dev_binary_sent.csv"
    assert [len(set(AMAZON[year]["categories"])) for year in AMAZON] == [24, 29, 34]


def test_nothing_else_talks_to_a_server():
    talking = {"urllib", "http", "requests", "httpx", "ftplib"}
    users = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if {name.split(".")[0] for name in imports_of(path)} & talking
    }
    assert users == {
        "model/server/application.py",  # answers on this machine
        "model/reading/inputs.py",  # names the path of a file:// address
        "data_utils/download/downloads.py",
        "data_utils/published_sets/registry.py",
    }
