"""Where to download data: the published sets and McAuley's Amazon reviews."""

import difflib
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from model.errors import InputError

from ..download.dataset import Dataset, RemoteFile
from .registry import SETS

AMAZON_TERMS = (
    "The texts belong to the people who wrote them; McAuley's group offers them for research, to "
    "be cited as {cite}. There is no licence to publish them again."
)


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


# In each release a category is one file of JSON lines: reviewText and overall, text and rating
# in that of 2023. No digests are published. The addresses are from the pages (2026).
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


def find_dataset(name: str, release: str | None = None, mirror: str | None = None) -> Dataset:
    """Look up a published set or `amazon:<category>`; asks no server.

    `mirror` is the address of a folder with the same files, to use instead of the known one.
    release: of the Amazon reviews; if absent, that of 2014. Raises InputError for an unknown name,
    with known ones, for a set that must be fetched by hand, and for a release of another set.
    """
    kind, _, category = name.partition(":")
    if kind == "amazon":
        dataset = _amazon(category, release or "2014")
    elif release is not None:
        raise InputError(f"--release is for amazon:<category>, not for {name}; leave it out")
    elif name in SETS and SETS[name].source.files:
        dataset = replace(SETS[name].source, name=name)
    else:
        known = [entry.name for entry in SETS.values() if entry.source.files]
        why = SETS[name].how_to_get() if name in SETS else f"data set {name!r} is unknown"
        raise InputError(f"{why}; known: {', '.join(known)}, amazon:<category>")
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
    return Dataset(source.page, terms, (file,), name=f"amazon_{release}")


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
