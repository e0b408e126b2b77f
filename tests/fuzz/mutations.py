"""Ways to spoil an option, a JSON file, a table, or bytes."""

import json
from random import Random
from typing import Any

HOSTILE_TEXT = [
    "", " ", "0", "-1", "1_0", "１", "٣", "nan", "inf", "-inf", "1e999", "1e-400", "0x10", "true",
    "None", "null", "=1+2", "+x", "-x", "@x", "\t", "a\nb", "a\x1b[31mb", "\x1b]0;t\x07", "\x00",
    "\u202eabc", "é", "\ud800", "../x", "/", ".", "*", "a" * 5000, "a,b", 'a"b', "'", "%s", "{0}",
    "$(x)", "~", "--", "-", "1,2", "a=1,b", "2026-01-01", "10m", "0s", "999999999999999999999d",
    "postgresql://u:secret@127.0.0.1:1/x", "sqlite://", "book.db?x=1", "x://y",
]  # fmt: skip
HOSTILE_JSON: list[Any] = [
    None, True, False, 0, -1, 1, 2, 0.5, 1e308, -1e308, 1e-320, 10**30, "", "1", "１", "1/3", "1/0",
    "false", "a\x1b[0m", "\ud800", [], [[]], {}, {"a": 1}, [None], [True, False], ["a", "b"],
    [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], [1, 2, 3], "x" * 3000, [0] * 500,
]  # fmt: skip
RAW_JSON = ["NaN", "Infinity", "-Infinity", "1e999", "01", "'a'", '{"a":1,"a":2}', "[" * 2000]
CELLS = [
    "", " ", "rest", "run", "RUN", "null", "NA", "nan", "0", "1.5", "-1", "１", "=1+2", "a\x1b[1m",
    '"', '"a\nb"', "a,b", "\x00", "\ufeff", "2026-01-01T00:00:00Z", "1e999", "x" * 2000, "é",
]  # fmt: skip


def option(rng: Random, args: list[str]) -> list[str]:
    """One argument changed, dropped, doubled, moved or added."""
    args = list(args)
    at = rng.randrange(len(args))
    match rng.randrange(7):
        case 0:
            args[at] = rng.choice(HOSTILE_TEXT)
        case 1:
            del args[at]
        case 2:
            args.insert(at, args[at])
        case 3:
            other = rng.randrange(len(args))
            args[at], args[other] = args[other], args[at]
        case 4:
            args.insert(rng.randrange(len(args) + 1), rng.choice(HOSTILE_TEXT))
        case 5:
            values = [n for n, arg in enumerate(args) if n and args[n - 1].startswith("--")]
            if values:
                args[rng.choice(values)] = rng.choice(HOSTILE_TEXT)
        case _:
            names = ["--out", "--plot", "--segment", "--every", "--cuts", "--window", "--label"]
            names += ["--independent-after", "--time", "--values", "--levels", "--anchor"]
            args += [rng.choice(names), rng.choice([*HOSTILE_TEXT, "out.json", "out.csv", "when"])]
    return [arg.replace("\x00", "") for arg in args]  # no shell can pass a NUL


def json_text(rng: Random, text: str) -> str:
    """A JSON text with one value replaced, dropped or renamed, or spoiled as text."""
    if rng.random() < 0.15:
        return chars(rng, text)
    data = json.loads(text)
    place, last = data, None
    for _ in range(rng.randrange(1, 6)):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        last = (place, rng.choice(keys))
        place = last[0][last[1]]
        if not isinstance(place, (dict, list)) or not place:
            break
    if last is None:
        return rng.choice(RAW_JSON)
    holder, key = last
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[str(key) + "x"] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder.append(holder[key])
        case 3:
            holder[key] = "RAW"
            return json.dumps(data).replace('"RAW"', rng.choice(RAW_JSON), 1)
        case 4 if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = rng.choice(
                [str(holder[key]), -holder[key], holder[key] * 2, holder[key] / 3]
            )
        case _:
            holder[key] = rng.choice(HOSTILE_JSON)
    return json.dumps(data)


def csv_text(rng: Random, text: str) -> str:
    """A table with a cell, a row or a column name changed, or spoiled as text."""
    if rng.random() < 0.15:
        return chars(rng, text)
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    cells = lines[at].split(",")
    match rng.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case 2:
            lines[at] = ",".join(cells[:-1])
        case 3:
            lines = lines[:at]
        case _:
            cells[rng.randrange(len(cells))] = rng.choice(CELLS)
            lines[at] = ",".join(cells)
    return "\n".join(lines)


def chars(rng: Random, text: str) -> str:
    """Some characters changed, inserted or cut away."""
    at = rng.randrange(len(text) + 1)
    match rng.randrange(4):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + rng.choice([*HOSTILE_TEXT, "{", "]", ",", ":", '"']) + text[at:]
        case 2:
            return text[:at] + text[at + rng.randrange(1, 9) :]
        case _:
            return rng.choice(["", "null", "[]", "\ufeff" + text, text + text, text.upper()])


def raw(rng: Random, content: bytes) -> bytes:
    """Some bytes changed or cut away."""
    at = rng.randrange(len(content)) if content else 0
    match rng.randrange(5):
        case 0:
            return content[:at]
        case 1:
            return b""
        case 2:
            return b"this is text, not a database\n" * 20
        case _:
            spoiled = bytearray(content)
            for _ in range(rng.choice([1, 1, 4, 64])):
                spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
            return bytes(spoiled)
