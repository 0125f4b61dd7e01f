"""Where published data lies, what proves that it is the right data, and on what terms.

Addresses are those that the pages of the data sets link to (2026). Only SST and IMDB have digests
that are known beforehand, each the same in many projects that read the set.
"""

import difflib
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from model.errors import InputError

SST_REVISION = "0032e4b87903713ad4242599f5dda2eb7b8c40fd"
SST_FOLDER = (
    "https://raw.githubusercontent.com/openai/generating-reviews-discovering-sentiment/"
    f"{SST_REVISION}/data"
)
IMDB_PAGE = "https://ai.stanford.edu/~amaas/data/sentiment/"
AMAZON_TERMS = (
    "The texts belong to the people who wrote them; McAuley's group offers them for research, to "
    "be cited as {cite}. There is no licence to publish them again."
)


@dataclass(frozen=True)
class RemoteFile:
    """One file at an address."""

    name: str  # on the disk
    url: str
    sha256: str | None = None  # of the published file; None where nobody published it


@dataclass(frozen=True)
class Dataset:
    """Files that belong together."""

    name: str  # a folder
    files: tuple[RemoteFile, ...]
    page: str  # for people: what it is, and where to look once an address is dead
    terms: str  # of use, in a sentence or two


@dataclass(frozen=True)
class AmazonRelease:
    """One of the releases of McAuley's group, a file for each category."""

    page: str
    url: str  # with {category}
    cite: str
    names: str  # of the categories, between white space

    @property
    def categories(self) -> list[str]:
        """The names of the categories."""
        return self.names.split()


SST = Dataset(
    "sst",
    (
        RemoteFile(
            "train.csv",
            f"{SST_FOLDER}/train_binary_sent.csv",
            "6003623bcb35aad3a446a265b8931b7ccab61fcc10f2e9c1fec916ff67c7be35",
        ),
        RemoteFile(
            "val.csv",
            f"{SST_FOLDER}/dev_binary_sent.csv",
            "f34c4987fea208fefc2d62a1b42c83a766cbfc7ce58c2a878ef953cf91f01729",
        ),
        RemoteFile(
            "test.csv",
            f"{SST_FOLDER}/test_binary_sent.csv",
            "519cea7ed4d22fe7ec4eccbb3d5ba6d88902a3b15ce129f476aa8364463a9fc7",
        ),
    ),
    "https://github.com/openai/generating-reviews-discovering-sentiment",
    "Sentences of film reviews (Socher et al. 2013, to be cited) in the splits of Radford et al. "
    "2017, whose repository is under the MIT licence; the texts are for research.",
)

IMDB = Dataset(
    "imdb",
    (
        RemoteFile(
            "aclImdb_v1.tar.gz",
            f"{IMDB_PAGE}aclImdb_v1.tar.gz",
            "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        ),
    ),
    IMDB_PAGE,
    "Film reviews collected by Maas et al. 2011, to be cited; no licence is stated, the texts "
    "belong to the people who wrote them: for research, not to be published again.",
)

# In each release a category is one file of JSON lines: reviewText and overall, text and rating
# in that of 2023. No digests are published.
AMAZON = {
    "2014": AmazonRelease(
        "https://cseweb.ucsd.edu/~jmcauley/datasets/amazon/links.html",
        "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/"
        "reviews_{category}.json.gz",
        "He and McAuley 2016, McAuley et al. 2015",
        """Amazon_Instant_Video Apps_for_Android Automotive Baby Beauty Books CDs_and_Vinyl
            Cell_Phones_and_Accessories Clothing_Shoes_and_Jewelry Digital_Music Electronics
            Grocery_and_Gourmet_Food Health_and_Personal_Care Home_and_Kitchen Kindle_Store
            Movies_and_TV Musical_Instruments Office_Products Patio_Lawn_and_Garden Pet_Supplies
            Sports_and_Outdoors Tools_and_Home_Improvement Toys_and_Games Video_Games""",
    ),
    "2018": AmazonRelease(
        "https://cseweb.ucsd.edu/~jmcauley/datasets/amazon_v2/",
        "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_v2/categoryFiles/"
        "{category}.json.gz",
        "Ni, Li and McAuley 2019",
        """AMAZON_FASHION All_Beauty Appliances Arts_Crafts_and_Sewing Automotive Books
            CDs_and_Vinyl Cell_Phones_and_Accessories Clothing_Shoes_and_Jewelry Digital_Music
            Electronics Gift_Cards Grocery_and_Gourmet_Food Home_and_Kitchen
            Industrial_and_Scientific Kindle_Store Luxury_Beauty Magazine_Subscriptions
            Movies_and_TV Musical_Instruments Office_Products Patio_Lawn_and_Garden Pet_Supplies
            Prime_Pantry Software Sports_and_Outdoors Tools_and_Home_Improvement Toys_and_Games
            Video_Games""",
    ),
    "2023": AmazonRelease(
        "https://amazon-reviews-2023.github.io/",
        "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_2023/raw/review_categories/"
        "{category}.jsonl.gz",
        "Hou et al. 2024",
        """All_Beauty Amazon_Fashion Appliances Arts_Crafts_and_Sewing Automotive Baby_Products
            Beauty_and_Personal_Care Books CDs_and_Vinyl Cell_Phones_and_Accessories
            Clothing_Shoes_and_Jewelry Digital_Music Electronics Gift_Cards
            Grocery_and_Gourmet_Food Handmade_Products Health_and_Household
            Health_and_Personal_Care Home_and_Kitchen Industrial_and_Scientific Kindle_Store
            Magazine_Subscriptions Movies_and_TV Musical_Instruments Office_Products
            Patio_Lawn_and_Garden Pet_Supplies Software Sports_and_Outdoors Subscription_Boxes
            Tools_and_Home_Improvement Toys_and_Games Unknown Video_Games""",
    ),
}


def find_dataset(name: str, release: str = "2014", mirror: str | None = None) -> Dataset:
    """Look up `sst`, `imdb` or `amazon:<category>`; asks no server.

    `mirror` is the address of a folder that has the same files, to be used instead of the known
    one. Raises InputError for a name that is not known, with the one that is nearest.
    """
    kind, _, category = name.partition(":")
    if kind == "amazon":
        dataset = _amazon(category, release)
    elif name in ("sst", "imdb"):
        dataset = SST if name == "sst" else IMDB
    else:
        raise InputError(f"data set {name!r} is unknown; known: sst, imdb, amazon:<category>")
    return dataset if mirror is None else _mirrored(dataset, mirror)


def _amazon(category: str, release: str) -> Dataset:
    source = AMAZON[release]
    if category not in source.categories:
        near = difflib.get_close_matches(category, source.categories, n=1, cutoff=0.4)
        hint = f"did you mean amazon:{near[0]}? " if near else ""
        raise InputError(
            f"amazon:{category}: the release of {release} has no such category; {hint}known: "
            + ", ".join(source.categories)
        )
    url = source.url.format(category=category)
    file = RemoteFile(url.rpartition("/")[2], url)
    terms = AMAZON_TERMS.format(cite=source.cite)
    return Dataset(f"amazon_{release}", (file,), source.page, terms)


def _mirrored(dataset: Dataset, mirror: str) -> Dataset:
    if not _is_address(mirror):
        raise InputError(f"--mirror {mirror}: expected an address, http://... or https://...")
    files = tuple(
        replace(file, url=f"{mirror.rstrip('/')}/{file.url.rpartition('/')[2]}")
        for file in dataset.files
    )
    return replace(dataset, files=files)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is no number
        return False
