"""The fields that each of our JSON documents begins with: which format it is, and which version.

Read by themselves, so that a document of another format or a newer version is called that, and not
damaged.
"""

import msgspec


class DocumentHead(msgspec.Struct):
    """Empty and 0 where the document has no such field."""

    format: str = ""
    version: int = 0


_HEAD = msgspec.json.Decoder(DocumentHead)


def head_of(document: bytes) -> DocumentHead:
    """Raises what damage.UNREADABLE lists."""
    return _HEAD.decode(document)
