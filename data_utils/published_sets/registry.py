"""The published sets. To add one, add an entry here; no other file needs to change."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from model.errors import InputError

from ..download.dataset import Dataset, RemoteFile
from ..download.movie_reviews import convert_movie_reviews
from ..labelled import LabelledSet
from .layouts import (
    ClassFiles,
    LabelColumns,
    Layout,
    PairTables,
    StarTables,
    Tables,
    joined,
    plain_tweet,
    relatedness,
    zero_or_one,
)
from .splits import Fold, SplitRule, given_split, ten_folds, val_of_train

SOURCES = {
    "radford": "Radford et al. 2017, arXiv 1704.01444: L1 regression on frozen features",
    "gray": "Gray, Radford and Kingma 2017, GPU kernels for block-sparse weights: 97 % of them "
    "zero; values as NLP-progress and Papers with Code list them",
    "rerun": "Radford et al.'s weights in NVIDIA/sentiment-discovery: read off its "
    "reproduction_graph.png, to 0.2 per cent",
    "nvidia": "the first model of NVIDIA/sentiment-discovery, fp32: read off the same figure",
    "puri": "Puri et al. 2018, arXiv 1808.01371: errors printed in the figure of "
    "NVIDIA/sentiment-discovery",
    "kant": "Kant et al. 2018, arXiv 1812.01207: F1 on the validation set, language model "
    "fine-tuned; SemEval from pictures in NVIDIA/sentiment-discovery (Table 8: thresholds chosen "
    "on the validation set itself; the leaderboard: the test set)",
}
EMOTIONS = (
    "anger", "anticipation", "disgust", "fear", "joy", "love", "optimism", "pessimism", "sadness",
    "surprise", "trust",
)  # fmt: skip

# The question about a text, or about a pair of texts.
Kind = Literal["classes", "emotions", "paraphrases", "relatedness"]


@dataclass(frozen=True)
class Row:
    """A row of the table: a measure of all units, or of the best one alone."""

    name: str
    title: str
    measure: str  # its key in a result
    of: str = "all_units"  # the part of a result that holds it


ALL_UNITS = Row("all_units", "all units", "accuracy")
ONE_UNIT = Row("one_unit", "one unit", "accuracy", of="one_unit")
PLUTCHIK_F1 = Row("all_units", "all units", "plutchik_f1")
PARAPHRASES = (Row("accuracy", "accuracy", "accuracy"), Row("f1", "F1", "f1"))
RELATEDNESS = (
    Row("pearson", "Pearson's r", "pearson"),
    Row("spearman", "Spearman's rho", "spearman"),
    Row("mse", "squared error", "mse"),
)


@dataclass(frozen=True)
class Published:
    """A published value, of a model with this many units."""

    row: str  # its name
    source: str  # in SOURCES
    units: int
    value: float
    unchecked: bool = False  # from memory: no source was at hand


@dataclass(frozen=True)
class PublishedFinetuning:
    """A published result of a model fine-tuned on a set, or of a frozen one in the same table."""

    name: str
    size: str
    source: str
    scores: dict[str, Any]  # accuracy, or f1: of each of eight emotions
    on_test: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedTask:
    """All texts of a set, and which of them are for fitting, choosing and testing."""

    name: str
    texts: LabelledSet
    folds: list[Fold]

    @property
    def sets(self) -> list[LabelledSet]:
        """Train, val and test of the first fold, each by itself."""
        return self.parts_of(self.folds[0])

    def parts_of(self, fold: Fold) -> list[LabelledSet]:
        """Return train, val and test of a fold, each by itself."""
        return [self.texts.subset(rows) for rows in (fold.train, fold.val, fold.test)]


@dataclass(frozen=True, kw_only=True)
class PublishedSet:
    """A published set: files, split, measures and published values."""

    name: str  # of its folder, and of its results
    title: str
    note: str = ""  # after the title, to explain the protocol
    layout: Layout
    other_names: tuple[str, ...] = ()  # of the layout's files, as scripts/download_data.py has them
    split: SplitRule
    kind: Kind = "classes"
    rows: tuple[Row, ...] = (ALL_UNITS, ONE_UNIT)  # of the table, the main one first
    floor: str = "majority"  # the answer without reading, by its key in a result
    published: tuple[Published, ...] = ()
    fine_tuned: tuple[PublishedFinetuning, ...] = ()
    tested_on: str = "test"
    first_page: tuple[Row, ...] = ()  # which of them README.md shows
    first_page_title: str = ""  # there, where it is not the title
    source: Dataset

    def read(self, data: Path) -> PublishedTask:
        """Read the set from its folder in `data`.

        Raises InputError if a file is missing, and says how to get it, or if it has another layout.
        """
        folder = data / self.name
        paths = self._paths(folder)
        missing = [path for path in paths if not path.is_file()]
        if missing:
            raise InputError(f"{missing[0]}: no such file; {self.how_to_get()}")
        parts = self.layout.read(paths)
        return PublishedTask(
            self.name, joined(parts), self.split([len(part.texts) for part in parts])
        )

    def is_in(self, data: Path) -> bool:
        """Return whether the folder of sets holds this one."""
        return all(path.is_file() for path in self._paths(data / self.name))

    def how_to_get(self) -> str:
        """Say how to get the files."""
        if self.source.files:
            return f"python scripts/download_data.py {self.name} gets {self.title}"
        files = ", ".join(f"{self.name}/{name}" for name in self.layout.files)
        return f"get {self.title} by hand from {self.source.page} as {files}"

    def _paths(self, folder: Path) -> list[Path]:
        named = [[folder / name for name in names] for names in self._names()]
        return next((paths for paths in named if paths[0].is_file()), named[0])

    def _names(self) -> list[tuple[str, ...]]:
        return [names for names in (self.layout.files, self.other_names) if names]


SST_FOLDER = (
    "https://raw.githubusercontent.com/openai/generating-reviews-discovering-sentiment/"
    "0032e4b87903713ad4242599f5dda2eb7b8c40fd/data"
)
IMDB_PAGE = "https://ai.stanford.edu/~amaas/data/sentiment/"
PANG_AND_LEE = "https://www.cs.cornell.edu/people/pabo/movie-review-data/"
# Its get_transfer_data script makes the files of CR, SUBJ, MPQA, MRPC and SICK.
SENT_EVAL = "https://github.com/facebookresearch/SentEval"
YELP = Dataset(
    "https://github.com/zhangxiangxiao/Crepe",
    "Reviews of Yelp's challenge of 2015 as Zhang et al. 2015 cut them, to be cited; for research.",
)

# Only SST and IMDB have known digests, each the same in many projects. Addresses are those that the
# pages of the sets link to (2026).
_ENTRIES = (
    PublishedSet(
        name="sst",
        title="SST",
        layout=Tables(("train.csv", "val.csv", "test.csv")),
        split=given_split,
        published=(
            Published("all_units", "radford", 4096, 0.918),
            Published("all_units", "gray", 18432, 0.932),
            Published("all_units", "rerun", 4096, 0.915),
            Published("all_units", "nvidia", 4096, 0.903),
            Published("all_units", "puri", 256, 0.532),
            Published("all_units", "puri", 1024, 0.818),
            Published("all_units", "puri", 4096, 0.918),
            Published("all_units", "puri", 8192, 0.937),
            Published("one_unit", "rerun", 4096, 0.857),
            Published("one_unit", "nvidia", 4096, 0.871),
            Published("one_unit", "puri", 256, 0.499),
            Published("one_unit", "puri", 1024, 0.812),
            Published("one_unit", "puri", 4096, 0.867),
            Published("one_unit", "puri", 8192, 0.912),
        ),
        fine_tuned=(
            PublishedFinetuning(
                "mLSTM, frozen", "4,096 units, 38 GB of reviews", "radford", {"accuracy": 0.918}
            ),
        ),
        first_page=(ALL_UNITS, ONE_UNIT),
        source=Dataset(
            "https://github.com/openai/generating-reviews-discovering-sentiment",
            "Sentences of film reviews (Socher et al. 2013, to be cited) in the splits of Radford "
            "et al. 2017, whose repository is under the MIT licence; the texts are for research.",
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
        ),
    ),
    PublishedSet(
        name="mr",
        title="MR",
        note="10 folds",
        layout=ClassFiles(("rt-polarity.neg", "rt-polarity.pos")),
        split=ten_folds,
        published=(Published("all_units", "radford", 4096, 0.869, unchecked=True),),
        first_page=(ALL_UNITS,),
        first_page_title="MR, ten folds",
        source=Dataset(
            PANG_AND_LEE,
            "Sentences of film reviews collected by Pang and Lee 2005, to be cited; for research.",
        ),
    ),
    PublishedSet(
        name="imdb",
        title="IMDB",
        layout=Tables(("imdb_train.jsonl.gz", "imdb_test.jsonl.gz")),
        other_names=("train.jsonl", "test.jsonl"),
        split=val_of_train(0.2, shuffled=True),
        published=(
            Published("all_units", "radford", 4096, 0.9288, unchecked=True),
            Published("all_units", "gray", 18432, 0.9499),
            Published("all_units", "puri", 256, 0.622),
            Published("all_units", "puri", 1024, 0.762),
            Published("all_units", "puri", 4096, 0.928),
            Published("all_units", "puri", 8192, 0.948),
            Published("one_unit", "radford", 4096, 0.923, unchecked=True),
            Published("one_unit", "puri", 256, 0.544),
            Published("one_unit", "puri", 1024, 0.734),
            Published("one_unit", "puri", 4096, 0.921),
            Published("one_unit", "puri", 8192, 0.934),
        ),
        first_page=(ALL_UNITS, ONE_UNIT),
        source=Dataset(
            IMDB_PAGE,
            "Film reviews collected by Maas et al. 2011, to be cited; no licence is stated, the "
            "texts belong to the people who wrote them: for research, not to be published again.",
            (
                RemoteFile(
                    "aclImdb_v1.tar.gz",
                    f"{IMDB_PAGE}aclImdb_v1.tar.gz",
                    "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
                ),
            ),
            convert=convert_movie_reviews,
        ),
    ),
    PublishedSet(
        name="semeval",
        title="SemEval E-c",
        note="val",
        layout=LabelColumns(("train.csv", "val.csv"), "Tweet", EMOTIONS, plain_tweet),
        split=val_of_train(0.1),
        kind="emotions",
        rows=(PLUTCHIK_F1,),
        floor="always",
        published=(Published("all_units", "kant", 4096, 0.394),),
        fine_tuned=(
            PublishedFinetuning(
                "mLSTM",
                "4,096 units, 86 M parameters, 40 GB of reviews",
                "kant",
                {"f1": [0.548, 0.275, 0.576, 0.319, 0.651, 0.491, 0.122, 0.168]},
            ),
            PublishedFinetuning(
                "ELMo",
                "as released: 94 M parameters, words",
                "kant",
                {"f1": [0.614, 0.294, 0.662, 0.388, 0.734, 0.531, 0.154, 0.181]},
            ),
            PublishedFinetuning(
                "Transformer",
                "12 layers of 768, 32,000 subwords, 40 GB of reviews",
                "kant",
                {"f1": [0.771, 0.403, 0.764, 0.765, 0.818, 0.691, 0.400, 0.271]},
                on_test={"f1_micro": 0.690, "f1_macro": 0.561, "jaccard_samples": 0.577},
            ),
        ),
        tested_on="validation set",
        first_page=(PLUTCHIK_F1,),
        first_page_title="SemEval-2018 E-c, mean F1 of 8 emotions",
        source=Dataset(
            "https://github.com/NVIDIA/sentiment-discovery/tree/master/data/semeval",
            "Tweets of SemEval-2018 task 1 (Mohammad et al. 2018, to be cited), for research.",
        ),
    ),
    PublishedSet(
        name="cr",
        title="CR",
        note="10 folds",
        layout=ClassFiles(("custrev.neg", "custrev.pos")),
        split=ten_folds,
        published=(
            Published("all_units", "radford", 4096, 0.914),
            Published("all_units", "gray", 18432, 0.922),
        ),
        source=Dataset(
            SENT_EVAL,
            "Sentences of product reviews collected by Hu and Liu 2004, to be cited; for research.",
        ),
    ),
    PublishedSet(
        name="subj",
        title="SUBJ",
        note="10 folds",
        layout=ClassFiles(("subj.objective", "subj.subjective"), ("objective", "subjective")),
        split=ten_folds,
        published=(Published("all_units", "radford", 4096, 0.946),),
        source=Dataset(
            SENT_EVAL,
            "Sentences of film reviews and of plots, Pang and Lee 2004, to be cited; for research.",
        ),
    ),
    PublishedSet(
        name="mpqa",
        title="MPQA",
        note="10 folds",
        layout=ClassFiles(("mpqa.neg", "mpqa.pos")),
        split=ten_folds,
        published=(Published("all_units", "radford", 4096, 0.885, unchecked=True),),
        source=Dataset(
            SENT_EVAL,
            "Phrases of news, Wiebe et al. 2005, to be cited; the corpus asks for an agreement.",
        ),
    ),
    PublishedSet(
        name="yelp",
        title="Yelp",
        note="two classes",
        layout=StarTables(("train.csv", "test.csv"), ("neg", "pos")),
        split=val_of_train(0.1),
        published=(
            Published("all_units", "radford", 4096, 0.9522, unchecked=True),
            Published("all_units", "gray", 18432, 0.9673),
        ),
        source=YELP,
    ),
    PublishedSet(
        name="yelp_full",
        title="Yelp",
        note="five stars",
        layout=StarTables(("train.csv", "test.csv"), ("1", "2", "3", "4", "5")),
        split=val_of_train(0.1),
        source=YELP,
    ),
    PublishedSet(
        name="mrpc",
        title="MRPC",
        layout=PairTables(
            ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"),
            ("#1 String", "#2 String", "Quality"),
            zero_or_one,
            ("another meaning", "paraphrase"),
        ),
        split=val_of_train(0.1),
        kind="paraphrases",
        rows=PARAPHRASES,
        published=(
            Published("accuracy", "radford", 4096, 0.75, unchecked=True),
            Published("f1", "radford", 4096, 0.828, unchecked=True),
        ),
        source=Dataset(
            SENT_EVAL,
            "Pairs of sentences from news, Dolan et al. 2004, to be cited; for research.",
        ),
    ),
    PublishedSet(
        name="sick",
        title="SICK",
        layout=PairTables(
            ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"),
            ("sentence_A", "sentence_B", "relatedness_score"),
            relatedness,
        ),
        split=given_split,
        kind="relatedness",
        rows=RELATEDNESS,
        floor="mean",
        published=(Published("pearson", "radford", 4096, 0.792, unchecked=True),),
        source=Dataset(
            SENT_EVAL,
            "Pairs of captions, Marelli et al. 2014, to be cited; for research.",
        ),
    ),
)
SETS = {entry.name: entry for entry in _ENTRIES}


def present(data: Path) -> list[str]:
    """Return the sets that a folder holds; print how to get the others."""
    names = [name for name, entry in SETS.items() if entry.is_in(data)]
    if not names:
        raise InputError(f"{data}: holds none of the sets {', '.join(SETS)}")
    for entry in (entry for name, entry in SETS.items() if name not in names):
        print(f"{entry.title} is not there: {entry.how_to_get()}")
    return names
