"""Line numbers of places in a text."""


def line_of(text: str, offset: int) -> int:
    """The line, from 1 on, that holds the character at `offset`."""
    return text.count("\n", 0, offset) + 1
