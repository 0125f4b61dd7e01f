"""The one error a user can cause; commands print it as one line and exit with code 2."""


class InputError(Exception):
    """Something given by the user cannot be used: says what, where, and how to mend it."""
