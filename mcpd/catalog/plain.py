"""Whether a definition's text can only be read as it looks, which costs little to see and is true of most.

Policy looks closely at what is not plain (n18). It is found out where a catalogue is read, because that is
done in a thread where the catalogue is large.
"""

from __future__ import annotations

import re
from typing import Final

#: Four characters of base64 of printable ASCII, whatever the text. Of three bytes 0x20-0x7e the first six
#: bits are 8-31, the next end in 2-7 and the third in 0-1; a word of a language or a name fits four times in
#: a row about one time in 40,000.
_GROUP: Final = "[I-Za-f][CDEFGHSTUVWXijklmnyz0123][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
#: Eight of base64 of ASCII in UTF-16, as PowerShell takes a command.
_WIDE: Final = "[A-Za-z0-9+/][AQgw][AB][A-Za-z0-9+/]A[A-Za-z0-9+/]{2}A"

#: What base64 and hexadecimal are made of.
ALPHABET: Final = "A-Za-z0-9+/_-"
#: The fewest characters of them that are looked at: twelve bytes in base64.
LEAST: Final = 16
#: Text of those characters alone that could be ASCII in another spelling.
CODED: Final = rf"(?:{_GROUP}){{4,}}|(?:{_WIDE}){{2,}}|(?:[2-7][0-9A-Fa-f]){{12,}}"
#: Six or more escapes of URLs, C or HTML, and a sign that all of these begin with.
ESCAPED: Final = (
    r"(?:%[0-9A-Fa-f]{2}){6,}|(?:\\{1,2}x[0-9A-Fa-f]{2}){6,}|(?:\\{1,2}u00[0-9A-Fa-f]{2}){6,}"
    r"|(?:&#[xX]?[0-9A-Fa-f]{2,3};){6,}"
)
_CODED: Final = re.compile(CODED.encode())
_ESCAPED: Final = re.compile(ESCAPED.encode())

#: The characters of the alphabet as they are, everything else as blanks; and as one character alone, of which
#: LEAST in a row are found at a quarter of the cost of taking the text apart.
_ALPHABET: Final = frozenset(code for code in range(128) if chr(code).isalnum() or chr(code) in "+/_-")
_BLANKED: Final = bytes(code if code in _ALPHABET else ord(" ") for code in range(256))
_MARKED: Final = bytes(ord("a") if code in _ALPHABET else ord(" ") for code in range(256))
_LONG: Final = b"a" * LEAST
#: Escapes of JSON for characters that are not seen.
_ESCAPES: Final = re.compile(rb"\\[ubf]")


def is_plain(text: bytes) -> bool:
    """Whether JSON text is printable ASCII in which nothing is hidden or spelled in another form."""
    if not text.isascii() or b"\x7f" in text or (b"\\" in text and _ESCAPES.search(text)):
        return False
    if _has_signs(text) and _ESCAPED.search(text):
        return False
    if _LONG not in text.translate(_MARKED):
        return True
    return not any(len(run) >= LEAST and _CODED.search(run) for run in text.translate(_BLANKED).split())


def _has_signs(text: bytes) -> bool:
    """Whether there is what all of ESCAPED begin with; one character is found much faster than two."""
    if b"%" in text or (b"&" in text and b"&#" in text):
        return True
    return b"\\" in text and (b"\\x" in text or b"\\\\u" in text)
