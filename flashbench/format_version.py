"""The first fields of our JSON documents: format and version.

Read separately, so that another format or a newer version is reported as such, not as damage.
"""

import msgspec


class DocumentHead(msgspec.Struct):
    """Missing fields are empty and 0."""

    format: str = ""
    version: int = 0


_HEAD = msgspec.json.Decoder(DocumentHead)


def head_of(document: bytes) -> DocumentHead:
    """Read the head; raises one of damage.UNREADABLE."""
    return _HEAD.decode(document)
