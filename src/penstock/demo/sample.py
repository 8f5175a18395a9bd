"""The sample file: many lines of very different kinds, identical on every machine.

`KINDS` lists them: text of many scripts, logs, JSON, CSV, empty lines, characters that some
programs treat as line ends (U+0085, U+2028, form feed, …), and very long lines.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Final

SAMPLE_LINES: Final = 500_000
SEED: Final = 20_260_101

LONG_EVERY: Final = 25_000
"""The distance between very long lines."""

LONG_BYTES: Final = 200_000
"""The minimum length of a very long line, in bytes."""

_BLOCK_LINES: Final = 5_000

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "English": tuple(
        "the a water river gate wheel mill turns slowly under grey sky and carries whatever rain "
        "brought down from hills before morning while nobody counts drops but every one arrives "
        "at last in order it left".split()
    ),
    "German": tuple(
        "das Wasser fließt über die Rinne größer als gestern schäumt müde Räder drehen sich früh "
        "Öl Stahl Mühle weiß süß Straße zwölf Bäche hören nie auf".split()
    ),
    "French": tuple(
        "l’eau descend du plateau où naît la rivière déjà élevée près d’un vieux château ça coule "
        "sans cesse là-bas naïve forêt cœur œuvre été".split()
    ),
    "Polish": tuple("źródło rzeka płynie wąską doliną gdzieś śpiewają żabki łódź ćma ósma".split()),
    "Turkish": tuple("ırmak ılık su değirmen çarkı İstanbul gökyüzü şarkı ağaç güneş".split()),
    "Greek": tuple("το νερό κυλά ήσυχα προς τη θάλασσα κάθε σταγόνα φτάνει στο τέλος".split()),
    "Russian": tuple("вода течёт по жёлобу вниз к мельнице каждая капля дойдёт вовремя".split()),
    "Hebrew": tuple("המים זורמים לאט אל הים כל טיפה מגיעה בסוף".split()),
    "Arabic": tuple("الماء يجري في القناة نحو البحر كل قطرة تصل أخيرا".split()),
    "Hindi": tuple("पानी धीरे धीरे नदी में बहता है हर बूँद पहुँचती है".split()),
    "Thai": tuple("น้ำ ไหล ช้าๆ สู่ ทะเล ทุก หยด ถึง ที่หมาย".split()),
    "Chinese": tuple("水 慢慢 流 过 渠道 每 一 滴 都 按 顺序 到达 大海 𠮷 龘".split()),
    "Japanese": tuple(
        "水は 静かに 流れ 水車が まわる ひとしずく も うしなわれ ない ガギグ".split()
    ),
    "Korean": tuple("물은 천천히 흐르고 물레방아가 돌며 모든 방울이 바다에 닿는다".split()),
    "emoji": tuple("💧 🌊 🚰 ⚙️ 👩🏽‍🔧 🏞️ 🇫🇮 🇺🇳 👨‍👩‍👧‍👦 🦦 🧮 ✅ 🐟 ❤️‍🔥".split()),
    "signs": tuple("∑ ∞ ≠ ½ ℵ₀ → ⇄ € ₿ § ° ‰ e\u0301 A\u030a 𝔘𝔫𝔦 𝄞 ﬁ ª \u202ex\u202c".split()),
}
"""A few words for each script; sentences are drawn from them, so they mean nothing."""

ODD: Final = (
    " ",
    "\t",
    "   leading and trailing   ",
    "\ttab\tseparated\tvalues\t",
    "null",
    "NULL",
    "\\n is not a line's end, and neither is \\r\\n",
    "\"quoted\", 'twice', and `once more`",
    "a,b;c|d",
    "\u0000 a zero character",
    "next\u0085line",
    "line\u2028separator",
    "paragraph\u2029separator",
    "form\u000cfeed and vertical\u000btab",
    "file\u001cgroup\u001drecord\u001eunit\u001fseparators",
    "\ufeffa byte order mark",
    "a replacement character \ufffd of its own",
    "zero\u200bwidth\u200dspace",
    "\U0010ffff the last code point",
    "${file:/etc/secret:key}",
    "-1",
    "0.1",
    "true",
    "{",
    "]",
    "#",
    "x",
)
"""Lines that a careless program would cut, trim, join, unquote or misread."""


def sample_lines(count: int = SAMPLE_LINES, seed: int = SEED) -> Iterator[str]:
    """The lines of the sample without their ends; always equal for equal arguments."""
    chance = random.Random(seed)
    makers = [maker for maker, _ in KINDS.values()]
    bounds = list(accumulate(weight for _, weight in KINDS.values()))
    for start in range(0, count, _BLOCK_LINES):
        numbers = range(start + 1, min(start + _BLOCK_LINES, count) + 1)
        drawn = chance.choices(makers, cum_weights=bounds, k=len(numbers))
        for number, maker in zip(numbers, drawn, strict=True):
            yield (_very_long if number % LONG_EVERY == 0 else maker)(number, chance)


def sample_blocks(count: int = SAMPLE_LINES, seed: int = SEED) -> Iterator[bytes]:
    """The bytes of the sample file in blocks of whole lines, each line ended by LF."""
    block: list[str] = []
    for line in sample_lines(count, seed):
        block.append(line)
        if len(block) == _BLOCK_LINES:
            yield ("\n".join(block) + "\n").encode()
            block = []
    if block:
        yield ("\n".join(block) + "\n").encode()


_SCRIPTS: Final = list(WORDS.values())
_LEVELS: Final = ("INFO", "INFO", "INFO", "INFO", "WARN", "DEBUG", "ERROR")


def _sentence(number: int, chance: random.Random) -> str:
    words = _SCRIPTS[int(chance.random() * len(_SCRIPTS))]
    return " ".join(chance.choices(words, k=2 + int(chance.random() * 18)))


def _mixed(number: int, chance: random.Random) -> str:
    parts = chance.choices(_SCRIPTS, k=3)
    return " ".join(" ".join(chance.choices(words, k=3)) for words in parts)


def _log(number: int, chance: random.Random) -> str:
    level = _LEVELS[int(chance.random() * len(_LEVELS))]
    second, ms = divmod(number * 37, 1000)
    return (
        f"2026-01-{1 + second // 86_400 % 28:02d}T{second // 3600 % 24:02d}:"
        f"{second // 60 % 60:02d}:{second % 60:02d}.{ms:03d}Z {level:5} "
        f"gate-{int(chance.random() * 12)} level={chance.random() * 400:.1f}cm seq={number}"
    )


def _json(number: int, chance: random.Random) -> str:
    word = WORDS["Japanese"][int(chance.random() * len(WORDS["Japanese"]))]
    is_open = "true" if number % 3 else "false"
    return (
        f'{{"id":{number},"flow":{chance.random() * 90:.3f},"name":"{word}",'
        f'"note":"say \\"Grüße\\" \\u00e9\\n","open":{is_open},"next":null}}'
    )


def _csv(number: int, chance: random.Random) -> str:
    return f'{number};"Mühlbach, ""oben""";{chance.random():.6f};;{number % 97};\'ё\''


def _counted(number: int, chance: random.Random) -> str:
    return str(number)


def _empty(number: int, chance: random.Random) -> str:
    return ""


def _odd(number: int, chance: random.Random) -> str:
    return ODD[int(chance.random() * len(ODD))]


def _long(number: int, chance: random.Random) -> str:
    words = _SCRIPTS[int(chance.random() * len(_SCRIPTS))]
    return " ".join(chance.choices(words, k=300 + int(chance.random() * 1_500)))


def _very_long(number: int, chance: random.Random) -> str:
    part = f"{number} 💧 " + _mixed(number, chance) + " "
    return part * (LONG_BYTES // len(part.encode()) + 1)


KINDS: Final[Mapping[str, tuple[Callable[[int, random.Random], str], int]]] = {
    "a sentence in one of many scripts": (_sentence, 400),
    "several scripts on one line": (_mixed, 120),
    "a log line": (_log, 180),
    "a JSON object": (_json, 120),
    "CSV with quotes": (_csv, 70),
    "only a number": (_counted, 40),
    "nothing at all": (_empty, 45),
    "something odd": (_odd, 24),
    "a long line": (_long, 1),
}
"""The kinds of lines, and how many there are per thousand."""
