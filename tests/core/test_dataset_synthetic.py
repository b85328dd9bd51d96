"""Made text: exact token lengths, calibration, shared prefixes with a wanted hit ratio."""

import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.datasets import lengths
from r1perf.datasets.lengths import Lognormal, Uniform
from r1perf.datasets.synthetic import Prefix, Synthetic, hit_ratio, prefix_tokens
from r1perf.datasets.tokens import Calibration, fit
from r1perf.datasets.words import WORDS, digest, made
from r1perf.errors import DatasetError


def texts(items, count):
    return [items.conversation(item).turns[0].text for item in range(count)]


def test_words_are_256_different_ones_without_spaces():
    assert len(WORDS) == len(set(WORDS)) == 256
    assert all(word.isalpha() and word.islower() for word in WORDS)


def test_made_text_never_changes():
    # Golden: other workers, machines and versions must make the same.
    assert made(6, "a", 1) == "choose ran love pick certain much"
    assert digest("a", 1).hex() == "b4feb303ba68581ff5140f67114e15e6"


def test_a_longer_text_begins_with_the_shorter():
    assert made(100, "k").startswith(made(99, "k") + " ")
    assert made(100, "k") != made(100, "l")


def test_one_word_is_one_token_unless_said_otherwise():
    items = Synthetic(input_tokens=2000, output_tokens=256).load(1)
    turn = items.conversation(0).turns[0]
    assert (len(turn.text.split()), turn.output_tokens, turn.max_tokens) == (2000, 256, None)
    assert items.expected.input_tokens == 2000
    assert items.expected.output_tokens == 256
    assert (
        len(Synthetic(input_tokens=2000, output_tokens=1, tokens_per_word=1.25).load(1).conversation(0).turns[0].text.split())
        == 1600
    )
    assert (
        len(Synthetic(input_tokens=2000, output_tokens=1, template_tokens=6).load(1).conversation(0).turns[0].text.split())
        == 1994
    )


def test_prompts_share_no_block_within_a_run_and_nothing_across_runs():
    spec = Synthetic(input_tokens=64, output_tokens=1)
    one, other = texts(spec.load(1, salt="run-1"), 500), texts(spec.load(1, salt="run-2"), 500)
    starts = {" ".join(text.split()[:16]) for text in one + other}
    assert len(starts) == 1000
    natural = Synthetic(input_tokens=64, output_tokens=1, cache="natural")
    assert texts(natural.load(1, salt="run-1"), 50) == texts(natural.load(1, salt="run-2"), 50)


def test_lengths_do_not_depend_on_the_run():
    spec = Synthetic(input_tokens=Uniform(low=10, high=500), output_tokens=Lognormal(median=100, sigma=1))
    shapes = [
        [(len(c.turns[0].text.split()), c.turns[0].output_tokens) for c in map(spec.load(3, salt=run).conversation, range(100))]
        for run in ("a", "b")
    ]
    assert shapes[0] == shapes[1]
    assert len(set(shapes[0])) > 90


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Train a small byte-level BPE that knows most of the words, as a whole and with a space before them."""
    tokenizers = pytest.importorskip("tokenizers")
    known = WORDS[:200]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=4000, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([" ".join(known)] * 20 + list(known) * 20, trainer)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def count(path, text):
    import tokenizers

    return len(tokenizers.Tokenizer.from_file(str(path)).encode(text, add_special_tokens=False).ids)


def test_lengths_are_exact_for_a_given_tokenizer(tokenizer):
    spec = Synthetic(input_tokens=Uniform(low=1, high=3000), output_tokens=1, tokenizer=tokenizer.name)
    plain = Synthetic(input_tokens=Uniform(low=1, high=3000), output_tokens=1)
    exact, wanted = texts(spec.load(1, tokenizer.parent), 40), texts(plain.load(1), 40)
    assert [count(tokenizer, text) for text in exact] == [len(text.split()) for text in wanted]
    assert [count(tokenizer, text) for text in wanted] != [len(text.split()) for text in wanted]  # some words are strange to it
    assert spec.load(1, tokenizer.parent).digest != plain.load(1).digest


def test_shared_prefixes_are_exact_too(tokenizer):
    spec = Synthetic(
        input_tokens=256,
        output_tokens=1,
        tokenizer=str(tokenizer.parent),
        template_tokens=6,
        prefix=Prefix(groups=2, hit_ratio=0.5),
    )
    for text in texts(spec.load(1), 10):
        assert count(tokenizer, text) == 250


def test_a_tokenizer_without_whole_words_is_refused(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    characters = tokenizers.Tokenizer(tokenizers.models.BPE())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=256, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    characters.train_from_iterator(["a"], trainer)
    characters.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(DatasetError, match=r"only 0 of the 256 words are one token each in it, so exact lengths cannot be made"):
        Synthetic(input_tokens=9, output_tokens=1, tokenizer="tokenizer.json").load(1, tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "no such file; allowed: a `tokenizer.json`", id="missing"),
        pytest.param("{}", "not a tokenizer file", id="broken"),
    ],
)
def test_a_wrong_tokenizer_file_is_told(tmp_path, content, says):
    pytest.importorskip("tokenizers")
    if content is not None:
        (tmp_path / "t.json").write_text(content)
    with pytest.raises(DatasetError) as error:
        Synthetic(input_tokens=9, output_tokens=1, tokenizer="t.json").load(1, tmp_path)
    assert says in str(error.value)


def test_a_tokenizer_without_its_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(DatasetError, match=r"a tokenizer needs the library: pip install 'r1perf\[tokenizers\]'"):
        Synthetic(input_tokens=9, output_tokens=1, tokenizer="t.json").load(1)


def test_calibration_is_fitted_to_the_server_s_counts():
    fitted = fit([(100, 137), (1000, 1307), (2000, 2607)])
    assert (fitted.tokens_per_word, fitted.overhead, fitted.error) == (pytest.approx(1.3), 7, pytest.approx(0, abs=1e-9))
    assert fitted.words(1307) == 1000
    assert fit([(100, 140), (100, 134), (1000, 1307)]).error == pytest.approx(3 / 134, rel=0.01)


@pytest.mark.parametrize(
    "counts", [[], [(5, 5)], [(5, 5), (5, 6)], [(5, 9), (6, 8)]], ids=["none", "one", "one length", "falling"]
)
def test_calibration_needs_lengths_that_tell(counts):
    with pytest.raises(ValueError, match=r"calibration needs prompts|do not grow"):
        fit(counts)


def test_calibrated_prompts_are_those_lengths():
    items = Synthetic(input_tokens=1307, output_tokens=1).load(1, salt="run")
    better = items.calibrated(fit([(100, 137), (1000, 1307)]))
    assert len(better.conversation(0).turns[0].text.split()) == 1000
    assert items.conversation(0).turns[0].text.startswith(better.conversation(0).turns[0].text)
    assert better.digest != items.digest
    assert items.calibration == Calibration(1.0, 0)


@given(st.integers(1, 100_000), st.floats(0.5, 3), st.integers(0, 200))
def test_words_and_tokens_are_inverse(tokens, per_word, overhead):
    calibration = Calibration(per_word, overhead)
    assert abs(calibration.tokens(calibration.words(tokens)) - max(tokens, overhead + per_word)) <= per_word


# --- Shared prefixes ---


def served(prompts, block=16):
    """Play a prefix cache that keeps everything: the share of tokens in blocks that an earlier prompt brought."""
    cache, hits, total = set(), 0, 0
    for prompt in prompts:
        words = prompt.split()
        total += len(words)
        missed = False
        for start in range(0, (len(words) - 1) // block * block, block):
            key = tuple(words[: start + block])
            missed = missed or key not in cache
            hits += 0 if missed else block
        for start in range(0, len(words) - block + 1, block):
            cache.add(tuple(words[: start + block]))
    return hits / total


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    "inputs",
    [1024, Uniform(low=200, high=800), Lognormal(median=500, sigma=0.5, low=64, high=3000)],
    ids=["fixed", "uniform", "lognormal"],
)
def test_the_hit_ratio_is_the_one_asked_for(inputs, ratio):
    spec = Synthetic(input_tokens=inputs, output_tokens=1, prefix=Prefix(groups=4, hit_ratio=ratio))
    items = spec.load(1)
    requests = 300
    found = served(texts(items, requests))
    assert found == pytest.approx(items.hit_ratio(requests), abs=0.015)
    assert items.hit_ratio(10**9) == pytest.approx(ratio, abs=0.02)


def test_groups_are_all_used_evenly():
    items = Synthetic(input_tokens=64, output_tokens=1, prefix=Prefix(groups=4, tokens=32)).load(1)
    starts = [" ".join(text.split()[:32]) for text in texts(items, 400)]
    sizes = [starts.count(start) for start in set(starts)]
    assert len(sizes) == 4
    assert min(sizes) > 70


def test_a_prompt_shorter_than_the_prefix_keeps_a_token_of_its_own():
    items = Synthetic(input_tokens=20, output_tokens=1, prefix=Prefix(tokens=64)).load(1)
    prompts = texts(items, 50)
    assert len({" ".join(prompt.split()[:19]) for prompt in prompts}) == 1
    assert len(set(prompts)) > 10


@pytest.mark.parametrize(("ratio", "tokens"), [(0.5, 512), (0.25, 256), (0.9, 928)])
def test_prefixes_are_whole_blocks(ratio, tokens):
    law = lengths.tokens(1024, "input_tokens")
    assert prefix_tokens(Prefix(hit_ratio=ratio), law) == tokens
    assert hit_ratio(tokens, 16, law) == pytest.approx(tokens / 1024)


def alike(prompts):
    words = [prompt.split() for prompt in prompts]
    return next(k for k in range(len(words[0])) if len({tuple(prompt[: k + 1]) for prompt in words}) > 1)


def test_estimated_prefixes_reach_half_a_block_further_and_exact_ones_do_not(tokenizer):
    ratio, exact = Prefix(hit_ratio=0.5), {"tokenizer": str(tokenizer)}
    shapes = [(ratio, {}), (ratio, exact), (Prefix(tokens=512), {})]
    found = [
        alike(texts(Synthetic(input_tokens=1024, output_tokens=1, prefix=prefix, **options).load(1), 20))
        for prefix, options in shapes
    ]
    assert found == [520, 512, 512]


@pytest.mark.parametrize("known", ["by calibration", "by tokenizer"])
@pytest.mark.parametrize(
    ("before", "behind"),
    [
        pytest.param(2, 3, id="DeepSeek R1"),
        pytest.param(3, 5, id="ChatML"),
        pytest.param(24, 5, id="ChatML with a default system prompt"),
        pytest.param(30, 6, id="Llama 3"),
        pytest.param(200, 6, id="a long system prompt"),
    ],
)
def test_what_the_template_puts_before_the_text_is_part_of_the_shared_prefix(tokenizer, known, before, behind):
    spec = Synthetic(input_tokens=1024, output_tokens=1, prefix=Prefix(hit_ratio=0.5))
    if known == "by calibration":
        items = spec.load(1).calibrated(Calibration(1.0, before + behind))
    else:
        items = msgspec.structs.replace(spec, tokenizer=str(tokenizer), template_tokens=before + behind).load(1)
    common = before + alike(texts(items, 20))
    assert common // 16 * 16 == 512  # a server of blocks
    assert common <= 512 + 8  # one that matches token by token


def test_a_prefix_that_the_template_alone_is_has_no_text():
    items = Synthetic(input_tokens=200, output_tokens=1, template_tokens=90, prefix=Prefix(hit_ratio=0.32)).load(1)
    assert len({text.split()[0] for text in texts(items, 20)}) > 5


def test_a_prompt_s_last_token_is_never_served():
    assert hit_ratio(64, 16, lengths.tokens(64, "x")) == 48 / 64
    assert hit_ratio(64, 16, lengths.tokens(65, "x")) == 64 / 65


def test_the_first_request_of_each_group_misses():
    items = Synthetic(input_tokens=1024, output_tokens=1, prefix=Prefix(groups=1, hit_ratio=0.5)).load(1)
    assert items.hit_ratio(1) == 0
    assert items.hit_ratio(4) == pytest.approx(0.5 * 3 / 4)
    assert Synthetic(input_tokens=8, output_tokens=1).load(1).hit_ratio(5) == 0
