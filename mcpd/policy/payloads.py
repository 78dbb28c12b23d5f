"""Commands and orders that are written in definitions in a form that people do not read (n18).

What decodes to neither is left alone: an identifier, a digest, a JSON blob, a sentence.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from mcpd.catalog.plain import ALPHABET, CODED, ESCAPED, LEAST
from mcpd.policy.phrases import find as phrases


class Payload(NamedTuple):
    """`text[at:end]` says `decoded`."""

    at: int
    end: int
    decoded: str


#: How many encodings on top of each other are undone.
_LAYERS: Final = 3

_RUN: Final = re.compile(rf"[{ALPHABET}]{{{LEAST},}}")
_CODED: Final = re.compile(CODED)
_ESCAPED: Final = re.compile(ESCAPED)
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2})+")

_COMMAND: Final = re.compile(
    # A program where a shell looks for one, with an argument that is no word of a sentence.
    r"(?:^|[|;&`$(\n])\s*(?:sudo\s+|exec\s+|nohup\s+|env\s+)*(?:/(?:usr/)?(?:local/)?s?bin/)?"
    r"(?:curl|wget|nc|ncat|netcat|socat|bash|sh|zsh|dash|ksh|python[23]?|perl|ruby|node|php|powershell|pwsh"
    r"|cmd(?:\.exe)?|rm|mv|cp|chmod|chown|dd|mkfs\S*|ssh|scp|sftp|rsync|crontab|eval|cat|echo|printf|export|tee"
    r"|kill|pkill|useradd|systemctl|launchctl|certutil|bitsadmin|mshta|rundll32|iex|invoke-\w+|docker|kubectl"
    r"|git|npx?|pip3?|apt(?:-get)?|tar|find|open|osascript|base64|openssl)(?:\.exe)?\s+\S*[-/~$|<>&'\"=.]"
    r"|/bin/(?:ba|z|da)?sh\b|/dev/tcp/|\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|\bos\.system\(|\b(?:eval|exec)\(\S"
    r"|__import__|\bsubprocess\.|\bchild_process\b|<script\b|\bjavascript:|\binvoke-expression\b"
    r"|\bxp_cmdshell\b",
    re.IGNORECASE,
)
#: These alone make no encoded text an order.
_WEAK: Final = frozenset({"alarming_words", "banner"})


#: What counts as one where there is no room left to look.
UNREAD: Final = "more encoded text than is looked at"


class Room:
    """How much decoded text of one catalogue is still looked at. Mutable: a counter.

    Reading takes about 0.2 ms a kB and the thread is everybody's; real catalogues have none or a few lines.
    """

    def __init__(self, characters: int = 256 * 1024) -> None:
        self._left = characters

    def take(self, characters: int) -> bool:
        """Whether there was room for so many."""
        self._left -= characters
        return self._left >= 0


def find(text: str, room: Room | None = None) -> tuple[Payload, ...]:
    """The encoded commands and orders in a text, in order; where `room` ends, all that is encoded."""
    room = room or Room()
    found = []
    for at, end, decoded in _decoded(text):
        said = _read(decoded) if room.take(len(decoded)) else UNREAD
        if said:
            found.append(Payload(at, end, said))
    return tuple(found)


def _read(text: str, layers: int = _LAYERS) -> str:
    """The command or order that decoded text is, or holds encoded once more; empty for none."""
    if _COMMAND.search(text) or any(each.code not in _WEAK for each in phrases.find(phrases.folded(text))):
        return text
    if layers > 1:
        for _, _, decoded in _decoded(text):
            said = _read(decoded, layers - 1)
            if said:
                return said
    return ""


def _decoded(text: str) -> Iterator[tuple[int, int, str]]:
    """Each run of a text that can be decoded to text: where it is, and to what."""
    for run in _RUN.finditer(text):
        whole = True
        for match in _CODED.finditer(run[0]):
            at, end = match.span()
            if _HEX.fullmatch(match[0]):
                said = _text(bytes.fromhex(match[0]))
            else:
                # The run may begin or end with what is not of it; where all of it can be read it is.
                if whole and (said := _base64(run[0][at % 4 :]) or _base64(run[0][at:])):
                    yield run.start() + at % 4, run.end(), said
                    break
                whole = False
                said = _base64(match[0])
            if said:
                yield run.start() + at, run.start() + end, said
    for match in _ESCAPED.finditer(text):
        said = _text(_unescaped(match[0]))
        if said:
            yield match.start(), match.end(), said


def _base64(run: str) -> str:
    run = run.translate({ord("-"): "+", ord("_"): "/"})
    # A run that is cut still decodes up to its last whole group.
    run = run[:-1] if len(run) % 4 == 1 else run
    try:
        return _text(base64.b64decode(run + "=" * (-len(run) % 4), validate=True))
    except (binascii.Error, ValueError):
        return ""


def _unescaped(run: str) -> bytes:
    if run.startswith("%"):
        return unquote_to_bytes(run)
    if run.startswith("\\"):
        return bytes.fromhex(re.sub(r"\\+(?:x|u00)", "", run))
    numbers = [part[2:] for part in run.split(";") if part]
    return bytes(
        int(n[1:], 16) & 0xFF if n[0] in "xX" else int(n, 10 if n.isdigit() else 16) & 0xFF for n in numbers
    )


def _text(data: bytes) -> str:
    """What bytes say as text, also as UTF-16 (PowerShell's -EncodedCommand); empty where they are none."""
    if data[1::2].count(0) * 2 >= len(data) - 1 > 2:
        data = data[::2]
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        return ""
    return text if text.translate(_SPACES).isprintable() else ""


_SPACES: Final = {ord("\n"): None, ord("\t"): None, ord("\r"): None}
