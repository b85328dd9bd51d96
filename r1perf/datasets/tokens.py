"""Made text of a wanted number of tokens: exact for a given tokenizer, corrected by a server's own counts without one."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec

from r1perf.datasets.words import WORDS, made
from r1perf.errors import DatasetError

TokensPerWord = Annotated[float, msgspec.Meta(ge=0.01, le=100)]
"""Tokens that a short word counts for: about 1 in every vocabulary; far beyond it is a mistake."""

_LEAST_WORDS = 64
_SAMPLE = 4096


class Calibration(msgspec.Struct, frozen=True):
    """How a server counts made text: tokens = overhead + words * tokens_per_word.

    The overhead is the chat template's own (begin of text, role marks). `error` is the largest relative error over the requests
    that it was held against; None where nothing was fitted. `requests` and `input_tokens` are what finding it took.
    """

    tokens_per_word: float = 1.0
    overhead: int = 0
    error: float | None = None
    requests: int = 0
    input_tokens: int = 0

    def words(self, tokens: int) -> int:
        """Return how many words give so many tokens, at least one."""
        return max(1, round((tokens - self.overhead) / self.tokens_per_word))

    @property
    def least(self) -> int:
        """Return the tokens of the shortest prompt, which is the template and one word."""
        return int(self.tokens(1))

    def tokens(self, words: int) -> float:
        """Return the tokens to expect of so many words."""
        return self.overhead + words * self.tokens_per_word


def fit(counts: Sequence[tuple[int, int]]) -> Calibration:
    """Fit (words, tokens as the server's `usage` says) by least squares; raises ValueError under two different numbers of words."""
    n = len(counts)
    if len({words for words, _ in counts}) < 2:
        raise ValueError("a calibration needs prompts of at least two different lengths")
    mean_words, mean_tokens = sum(words for words, _ in counts) / n, sum(tokens for _, tokens in counts) / n
    spread = sum((words - mean_words) ** 2 for words, _ in counts)
    slope = sum((words - mean_words) * (tokens - mean_tokens) for words, tokens in counts) / spread
    if slope <= 0:
        raise ValueError("the server's token counts do not grow with the prompts")
    fitted = Calibration(slope, round(mean_tokens - slope * mean_words))
    error = max(abs(fitted.tokens(words) - tokens) / tokens for words, tokens in counts)
    return msgspec.structs.replace(fitted, error=error, requests=n, input_tokens=sum(tokens for _, tokens in counts))


class Counted(Protocol):
    """What a dataset of made text says of how a server counts it."""

    @property
    def tokenizer(self) -> str | None:
        """Return the tokenizer's file, where one is given."""

    @property
    def tokens_per_word(self) -> float:
        """Return how many tokens a word counts for, 1 where nothing is said."""

    @property
    def template_tokens(self) -> int:
        """Return what the chat template adds, 0 where nothing is said."""

    @property
    def calibrate(self) -> bool:
        """Tell whether the server may be asked."""


def uncounted(spec: Counted) -> bool:
    """Tell whether a dataset leaves it to the server's own counts how its words are counted."""
    return spec.calibrate and (spec.tokenizer, spec.tokens_per_word, spec.template_tokens) == (None, 1.0, 0)


def slack(spec: Counted, calibration: Calibration, block: int) -> int:
    """Return by how many tokens more than whole blocks of so many texts are made alike.

    The template's tokens count as standing before the text, as a default system prompt does; what stands behind it (3 to 6 in usual
    templates) makes the start fall short, as an estimate does that is a little too low. Half a block more keeps whole blocks whole.
    """
    exact = spec.tokenizer is not None and not calibration.overhead
    return 0 if exact else block // 2


ONE_EACH = Calibration()
"""One word is one token, and nothing comes on top."""


class Vocabulary:
    """The 256 words that texts are made of, and how many of them make a token."""

    def __init__(self, words: tuple[str, ...] = WORDS, calibration: Calibration = ONE_EACH, digest: str = "") -> None:
        self.words, self.calibration, self.digest = words, calibration, digest

    def text(self, tokens: int, *key: object) -> str:
        """Make a text of so many tokens; a longer one with the same key begins with it."""
        return self.made(self.calibration.words(tokens), *key)

    def made(self, words: int, *key: object) -> str:
        """Make a text of so many words."""
        return made(words, *key, words=self.words)

    def even(self, words: int) -> str:
        """Make a text of so many words in which each word of the vocabulary stands as often as any other, or once more.

        Its tokens a word are the mean over the vocabulary, without the luck of a draw.
        """
        return " ".join(self.words[at % len(self.words)] for at in range(words))


def exact_vocabulary(path: str, base: Path | None, overhead: int) -> Vocabulary:
    """Keep the words that are one token each in a `tokenizer.json`, and prove on 4,096 of them that joining keeps it so.

    Raises DatasetError where the library or the file is missing, or the tokenizer has not enough such words.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise DatasetError(f"{path}: a tokenizer needs the library: pip install 'r1perf[tokenizers]'") from error
    full = (base or Path()) / Path(path).expanduser()
    if full.is_dir():
        full /= "tokenizer.json"
    if not full.is_file():
        raise DatasetError(f"{full}: no such file; allowed: a `tokenizer.json` of the Hugging Face `tokenizers` library")
    try:
        tokenizer = Tokenizer.from_file(str(full))
    except Exception as error:  # the library raises plain Exception
        raise DatasetError(f"{full}: not a tokenizer file ({error})") from error
    whole = [word for word in WORDS if _count(tokenizer, f"{word} {word}") == 2]  # at the start, and after a space
    words = tuple((whole * (256 // max(1, len(whole)) + 1))[:256])
    if len(whole) < _LEAST_WORDS or _count(tokenizer, made(_SAMPLE, "proof", words=words)) != _SAMPLE:
        raise DatasetError(
            f"{full}: only {len(whole)} of the {len(WORDS)} words are one token each in it, so exact lengths cannot be made; "
            f"allowed: leave `tokenizer` out and calibrate"
        )
    return Vocabulary(words, Calibration(1.0, overhead), hashlib.sha256(full.read_bytes()).hexdigest())


def _count(tokenizer: Any, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False).ids)
