"""Texts of many kinds, to be answered the same way everywhere."""

import random

THINGS = ("kettle", "lamp", "train", "film", "soup", "jacket", "parcel", "teacher", "garden")
SENTENCES = (
    "I love this {}.", "The {} works perfectly.", "Worst {} ever.", "The {} broke at once.",
    "The {} came on a Tuesday.", "There is a {} in the hall.", "Not bad at all, this {}.",
    "Oh great, another {}.", "It is a {}, I suppose.", "The {} could be worse.",
    "I expected little of the {}, and was delighted.", "They changed the {} last week",
)  # fmt: skip
STRANGE = (
    "", " ", "\n\t", "\u3000", "?", "a", "...", "zxqj vvkw qqqq zzxj kkqx jjzx", "%%%% ####",
    "12345", "N/A", " none. ", "NaN", "#REF!", "[deleted]", "<p>Total</p>", "No\n\u3000ANSWER!",
    "nothing", "\u2014", "TOTAL G\u00c9N\u00c9RAL", "constructor", "No re\u017fponse",
    "\N{THUMBS UP SIGN}", "\u5f88\u597d", "<br />", "<p></p>", " <br> ", "&nbsp;",
    "<p>&nbsp;</p>", "N&sol;A",
    "a < b", "<unknown>", "<3",
    "I loved it.<br /><br />It <b>works</b>.", "<p>The lamp broke.</p><p>Never again.</p>",
    "&lt;br /&gt;Great value&lt;br /&gt;", '<div class="x">Good</div>', "Tom &amp; Jerry<br>again",
    "caf&eacute; <i>terrible</i>.<br>Really.", "5 <b>stars", "An awful thing. " * 40, "good " * 300,
    "The first half is great, the second one a waste of time. " * 12,
)  # fmt: skip


def texts_of_many_kinds(count=200):
    """Everyday sentences, some with tags or in a row; noise, long and empty texts."""
    chooser, texts = random.Random(5), list(STRANGE)
    while len(texts) < count:
        drawn = [
            chooser.choice(SENTENCES).format(chooser.choice(THINGS))
            for _ in range(chooser.choice((1, 1, 1, 2, 3)))
        ]
        texts.append(chooser.choice((" ", " ", "<br />")).join(drawn))
    return texts
