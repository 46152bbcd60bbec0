"""Files mutated by their structure (JSON values and members, lines, cells) and by their bytes.

A mutation is cut and pasted in the text itself, so that a million of them take minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Span = tuple[int, int]

DEEP = 3_000  # more than Python's limit of recursion
ODD = (
    b"null", b"true", b"false", b"0", b"-1", b"1", b"2", b"0.5", b"-0.0", b"1e-320", b"1e30", b"1e308", b"-1e308",
    b"1e400", b"NaN", b"-Infinity", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"1" + b"0" * 30,
    b"1" + b"0" * 400, b"1" + b"0" * 5000, b'""', b'"x"', b'"\\u0000"', b'"../../x"', b'"/etc/passwd"', b'"a\\nb"',
    b'"=1+1"', b'"\\ud800"', b'"\\u202e\xf0\x9f\x98\x80"', b'"\xff"', b'"' + b"y" * 20_000 + b'"', b"[]", b"{}",
    b"[[]]", b"[null]", b'[{"":null}]', b'{"":{}}', b'{"value":1}', b"[1,2,3]", b"[1e308,1e308]", b'"NaN"',
    b'"2026-01-01"',
    b"[" * DEEP, b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP,
)  # fmt: skip
ODD_CELLS = (
    b"",
    b"nan",
    b"inf",
    b"-1",
    b"0",
    b"1e308",
    b"9" * 400,
    b"x",
    b"1_0",
    b" 1",
    b'"1"',
    b"\0",
    b"\xff",
    b"=1+1",
)
TOKEN = re.compile(rb'\s+|[,:]|[{}\[\]]|"(?:[^"\\]|\\.)*"|[^\s,:{}\[\]"]+')


@dataclass(frozen=True)
class Text:
    """A file and the positions of its values; a member is a value with its key."""

    content: bytes
    values: tuple[Span, ...]
    members: tuple[Span, ...]
    odd: Sequence[bytes] = ODD


def json_text(content: bytes) -> Text:
    """Find the values and members of JSON, or of lines of JSON."""
    values: list[Span] = []
    members: list[Span] = []
    opened: list[tuple[int, int | None]] = []  # position of each open bracket, and of its member's key
    key: int | None = None
    last: Span | None = None
    for token in TOKEN.finditer(content):
        start, end, first = token.start(), token.end(), token.group()[:1]
        if first in b"{[":
            opened.append((start, key))
            key = None
            continue
        if first == b":" and last:
            key = last[0]
            values.pop()  # a key is not a value
        elif first in b"}]":
            start, key = opened.pop()
        elif token.group().isspace() or first == b",":
            continue
        if first != b":":
            last = start, end
            values.append(last)
            if key is not None:
                members.append((key, end))
            key = None
    return Text(content, tuple(values), tuple(members))


def cell_text(content: bytes) -> Text:
    """Find the cells of a table."""
    cells = tuple(match.span() for match in re.finditer(rb"[^,\r\n]+", content))
    return Text(content, cells, (), ODD_CELLS)


def toml_text(content: bytes) -> Text:
    """Find the values of lines `key = value`."""
    values = tuple(match.span(1) for match in re.finditer(rb"= *([^\n]+)", content))
    return Text(content, values, tuple(match.span() for match in re.finditer(rb"[^\n]+\n", content)))


def mutated(text: Text, random: Random) -> bytes:
    """Mutate once or a few times in a row: replace a value, drop a key, change lines or bytes."""
    content = _structurally(text, random) if text.values and random.random() < 0.8 else _bytewise(text.content, random)
    while random.random() < 0.25:
        content = _bytewise(content, random)
    return content


def _structurally(text: Text, random: Random) -> bytes:
    content = text.content
    start, end = random.choice(text.values)
    what = random.random()
    if what < 0.5:
        return content[:start] + random.choice(text.odd) + content[end:]
    if what < 0.7:  # another value of the same file: another type in its place
        first, last = random.choice(text.values)
        return content[:start] + content[first:last] + content[end:]
    if text.members and what < 0.9:
        start, end = random.choice(text.members)
        if random.random() < 0.6:
            if content[end : end + 1] == b",":
                return content[:start] + content[end + 1 :]
            return content[:start].rstrip(b", \n") + content[end:]
        return content[:end] + b", " + content[start:end] + content[end:]  # twice
    rows = content.split(b"\n")
    return b"\n".join(random.choice(LINES)(rows, random))


def _without(rows: list[bytes], random: Random) -> list[bytes]:
    place = random.randrange(len(rows))
    return rows[:place] + rows[place + 1 :]


def _twice(rows: list[bytes], random: Random) -> list[bytes]:
    place, other = random.randrange(len(rows)), random.randrange(len(rows))
    return [*rows[:place], rows[other], *rows[place:]]


def _exchanged(rows: list[bytes], random: Random) -> list[bytes]:
    place, other = random.randrange(len(rows)), random.randrange(len(rows))
    rows[place], rows[other] = rows[other], rows[place]
    return rows


LINES: tuple[Callable[[list[bytes], Random], list[bytes]], ...] = (_without, _twice, _exchanged)


def _bytewise(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    what = random.random()
    if what < 0.3:
        return content[:place] + bytes([random.randrange(256)]) + content[place + 1 :]
    if what < 0.5:
        return content[:place] + bytes([random.randrange(256)]) + content[place:]
    if what < 0.7:
        return content[:place] + content[place + random.randrange(1, 40) :]
    if what < 0.8:
        return content[:place]
    if what < 0.9:
        return content[:place] + random.choice(ODD) + content[place:]
    other = random.randrange(len(content) + 1)
    return content[:place] + content[other : other + random.randrange(1, 400)] + content[place:]
