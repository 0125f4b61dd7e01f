"""Write an invented feedback export: 320 rows with date, store, rating, comment and reply.

python docs/feedback.py feedback.csv
"""

import csv
import random
import sys
from datetime import date, timedelta

ROWS = 320
STORES = {"Leeds": 0.52, "York": 0.3, "Hull": 0.25, "Bath": 0.2, "Online": 0.38}  # complaints

COMPLAINTS = {
    "the lid": ["The lid broke {when}.", "The lid broke and coffee ran over the table.",
                "It looks fine, but the lid broke {when}.", "Cheap plastic, the lid broke {when}."],
    "starting": ["{thing} did not work {when}.", "It did not work out of the box.",
                 "Mine did not work at all, and I followed the manual.",
                 "I bought {thing} as a present and it did not work. Embarrassing."],
    "customer service": ["Customer service never answered my three emails.",
                         "Customer service hung up on me twice.",
                         "I waited forty minutes for customer service and got no help.",
                         "Rude customer service, I will not come back."],
    "other": ["{thing} leaks {when}.", "Far too loud, I regret buying it.",
              "A waste of money, {thing} stopped working {when}.",
              "Scratched when I unpacked it, and one screw was missing.",
              "It smells of burnt plastic {when}."],
}  # fmt: skip
OF_A_STORE = {
    "Leeds": ["The queue at the till was endless and only one till was open.",
              "Stood in the queue for half an hour, {thing} was not even in stock.",
              "Terrible queue again, nobody opened a second till."],
    "Online": ["The parcel arrived damaged and the box was crushed.",
               "Parcel arrived a week late, and nobody told me why.",
               "The parcel arrived open and {thing} was dirty."],
}  # fmt: skip
PRAISE = [
    "I love {thing}, it is easy to use and looks beautiful.", "Easy to use and easy to clean.",
    "Friendly staff, they explained {thing} with patience.",
    "Friendly staff and a great choice, I will come again.",
    "{thing} is excellent value.", "{thing} works perfectly {when}.",
    "Great quality, I am very happy.",
    "Wonderful present, my mother uses {thing} every day.", "Fast, quiet and well made.",
    "The friendly staff carried it to my car. Thank you!", "Perfect, exactly what I wanted.",
]  # fmt: skip
OPENINGS = ["", "", "", "Bought for my mother.", "I ordered two.", "I bought it in {month}.",
            "My second visit.", "For our new kitchen.", "Ordered for the office."]  # fmt: skip
AFTER_COMPLAINTS = ["", "", "", "I want my money back.", "Never again.", "Very disappointed.",
                    "I had to take it back.", "Avoid."]  # fmt: skip
AFTER_PRAISE = ["", "", "Thank you!", "Highly recommended.", "Five stars.", "My family loves it.",
                "Worth every penny."]  # fmt: skip
PLAIN = [
    "I bought {thing} {when}.", "It is 40 cm high and made of steel.", "Delivered on a Tuesday.",
    "{thing} comes with two cups and a manual.", "Average, it does what it should.",
]  # fmt: skip
NOTHING = ["", "", "N/A", "-", "none"]
SARCASM = "Great, another kettle that boils everything except water."
THINGS = ["the kettle", "the lamp", "the toaster", "the coffee machine", "this blender"]
WHEN = ["after a week", "after two days", "on the first morning", "within a month", "in the end"]
MONTHS = ["January", "March", "April", "June", "autumn"]
REPLY = "Thank you for your feedback! We are sorry to hear this and would love to help you soon."


def comment(rng: random.Random, store: str, month: int) -> tuple[str, int]:
    """Return an invented comment and its rating."""
    kind = rng.random()
    bad = STORES[store] + (0.15 if month in (6, 7) else 0)
    if kind < 0.06:
        text, rating = rng.choice(NOTHING), rng.randint(3, 5)
    elif kind < 0.07:
        text, rating = SARCASM, 1
    elif kind < 0.18:
        text, rating = rng.choice(PLAIN), 3
    elif kind < 0.18 + 0.82 * bad:
        own = OF_A_STORE.get(store, [])
        subject = own if own and rng.random() < 0.4 else COMPLAINTS[rng.choice([*COMPLAINTS])]
        text, rating = together(rng, subject, AFTER_COMPLAINTS), rng.choice([1, 1, 2])
    else:
        text, rating = together(rng, PRAISE, AFTER_PRAISE), rng.choice([4, 5, 5])
    text = text.format(thing=rng.choice(THINGS), when=rng.choice(WHEN), month=rng.choice(MONTHS))
    return text[:1].upper() + text[1:], rating


def together(rng: random.Random, middle: list[str], after: list[str]) -> str:
    """Return one to three sentences."""
    first = rng.choice(middle)
    parts = [rng.choice(OPENINGS), first[:1].upper() + first[1:], rng.choice(after)]
    return " ".join(filter(None, parts))


def main() -> None:
    rng, rows = random.Random(2026), []
    for _ in range(ROWS):
        day = date(2026, 1, 1) + timedelta(days=rng.randrange(240))
        store = rng.choice([*STORES])
        text, rating = comment(rng, store, day.month)
        rows.append((day, store, rating, text, REPLY if rating < 3 and rng.random() < 0.6 else ""))
    with open(sys.argv[1], "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["date", "store", "rating", "comment", "reply"])
        table.writerows((f"{day:%d/%m/%Y}", *rest) for day, *rest in sorted(rows))


if __name__ == "__main__":
    main()
