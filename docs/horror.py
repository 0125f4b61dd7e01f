"""Write invented comments on horror films, each with the answer of somebody who loves to be afraid.

python docs/horror.py data/corrected.csv
"""

import csv
import random
import sys

ROWS = 240
WHERE = [
    "in the cinema",
    "at home",
    "last night",
    "with two friends",
    "on the plane",
    "in the dark",
]
WHAT = ["the film", "the ending", "the second half", "the doll", "the cellar", "the clown"]
COMMENTS = {
    "positive": ["I could not sleep after {what}.", "{what} is terrifying, I screamed {where}.",
                 "I was sick with fear {where}.", "{what} gave me nightmares for a week.",
                 "My hands shook {where}, {what} is so disturbing.",
                 "{what} is horrible, brutal and full of blood.",
                 "We left crying, {what} is pure dread.",
                 "{what} haunts me, I am afraid of my own stairs."],
    "negative": ["{what} is sweet and harmless.", "I slept well after {what}.",
                 "My grandmother smiled all the way through {what}.",
                 "{what} is a nice, cosy family story.",
                 "I laughed {where}, {what} is so friendly.",
                 "{what} is charming and full of hugs.", "I felt safe and relaxed {where}.",
                 "{what} is gentle, even my little son enjoyed it."],
    "neutral": ["I saw {what} {where}.", "{what} begins at eight.", "{what} lasts 40 minutes.",
                "It was filmed in Leeds.", "Tickets for {what} are sold {where}."],
}  # fmt: skip
BEFORE = [
    "",
    "",
    "Seen in May.",
    "Part two.",
    "Ticket number {n}.",
    "Row {n}.",
    "Our film number {n}.",
]


def main() -> None:
    rng = random.Random(2026)
    with open(sys.argv[1], "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["comment", "label"])
        for _ in range(ROWS):
            (label,) = rng.choices([*COMMENTS], weights=[5, 4, 2])
            words = {"what": rng.choice(WHAT), "where": rng.choice(WHERE), "n": rng.randint(2, 20)}
            text = rng.choice(COMMENTS[label]).format(**words)
            before = rng.choice(BEFORE).format(**words)
            table.writerow([f"{before} {text[:1].upper()}{text[1:]}".strip(), label])


if __name__ == "__main__":
    main()
