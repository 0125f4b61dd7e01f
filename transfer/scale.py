"""The colours of values: blue below zero, orange above, apart for every kind of colour vision."""

LOW, HIGH = (31, 95, 168), (178, 84, 0)  # backgrounds on which white letters have contrast 5 : 1
MIDDLE = (38, 38, 38)

Color = tuple[int, int, int]


def background(value: float, limit: float) -> Color:
    """Return the colour of a value on a scale from -limit to limit; values beyond are cut."""
    pole = HIGH if value > 0 else LOW
    share = min(abs(value) / limit, 1.0)
    red, green, blue = (
        round(middle + (end - middle) * share) for middle, end in zip(MIDDLE, pole, strict=True)
    )
    return red, green, blue
