"""Grading: a hand-checked table of model answers of every awkward form."""

from resource import RUSAGE_SELF, getrusage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.grading import Grade, Grades, boxed, grade, normal, without_reasoning

R, W, U, T = Grade.RIGHT, Grade.WRONG, Grade.UNANSWERED, Grade.TRUNCATED

ANSWERS = [
    # (id, answer text, right answer, grade)
    ("plain box", r"So the total is \boxed{73}.", "73", R),
    ("leading zero", r"\boxed{073}", "73", R),
    ("leading zero expected", r"\boxed{73}", "073", R),
    ("minus as it is printed", "\\boxed{\N{MINUS SIGN}73}", "-73", R),
    ("minus as it is printed, expected", r"\boxed{-73}", "\N{MINUS SIGN}73", R),
    ("minus as it is printed, in a sentence", "The answer is \N{MINUS SIGN}73.", "-73", R),
    ("minus as it is printed, last", "so x = \N{MINUS SIGN}73", "73", W),
    ("wrong box", r"\boxed{74}", "73", W),
    ("last box counts", r"First \boxed{25}, hence \boxed{73}.", "73", R),
    ("last box counts against it", r"First \boxed{73}, hence \boxed{25}.", "73", W),
    ("nested braces", r"\boxed{\text{73}}", "73", R),
    ("bold", r"\boxed{\mathbf{073}}", "73", R),
    ("box in box", r"\boxed{\boxed{73}}", "73", R),
    ("degrees", r"\boxed{73^\circ}", "73", R),
    ("braced degrees", r"\boxed{73^{\circ}}", "73", R),
    ("unit in text", r"\boxed{204\text{ minutes}}", "204", R),
    ("unit squared", r"\boxed{73\,\text{cm}^2}", "73", R),
    ("unit in words", r"\boxed{204 minutes}", "204", R),
    ("percent", r"\boxed{73\%}", "73", R),
    ("dollars inside", r"\boxed{$73$}", "73", R),
    ("display style", r"\boxed{\displaystyle 73}", "73", R),
    ("equation in box", r"\boxed{m+n = 25+48 = 73}", "73", R),
    ("decimal zeros", r"\boxed{73.0}", "73", R),
    ("thousands", r"\boxed{1{,}073}", "1073", R),
    ("thousands comma", r"\boxed{1,073}", "1073", R),
    ("parentheses", r"\boxed{(73)}", "73", R),
    ("space before brace", r"\boxed {73}", "73", R),
    ("fbox", r"\fbox{73}", "73", R),
    ("eaten backslash", "\x08oxed{73}", "73", R),
    ("letter in box", r"\boxed{A}", "73", W),
    ("fraction in box", r"\boxed{\frac{146}{2}}", "73", W),
    ("decimal is not whole", r"\boxed{73.5}", "73", W),
    ("set in box", r"\boxed{70, 3}", "73", W),
    ("negative", r"\boxed{-73}", "73", W),
    ("minus zero", r"\boxed{-0}", "0", R),
    ("empty box, then text", r"\boxed{} The answer is 73.", "73", R),
    ("open box falls back", r"\boxed{73", "73", R),
    ("directive repeated", r"I put my final answer within \boxed{}.", "73", U),
    ("box in reasoning only", r"<think>\boxed{73}</think>I am not sure.", "73", U),
    ("draft in reasoning", r"<think>\boxed{5}</think>\boxed{73}", "73", R),
    ("reasoning without opening tag", r"maybe \boxed{5}</think>It is \boxed{73}", "73", R),
    ("reasoning still open", r"<think>so \boxed{73}", "73", U),
    ("answer is", "The answer is 73.", "73", R),
    ("answer is, shouted", "ANSWER IS 73", "73", R),
    ("answer is, not another", "The answer is 73, not 74.", "73", R),
    ("answer is, negative", "The answer is -73.", "73", W),
    ("answer is an equation", "The answer is $m+n = 25 + 48 = 73$.", "73", R),
    ("answer is a plain equation", "the answer is therefore 25+48=73.", "73", R),
    ("bold answer", "**Answer:** 73", "73", R),
    ("heading and number", "**Final Answer**\n\n**073**", "73", R),
    ("display math", "The answer is:\n\n$$73$$", "73", R),
    ("bracket math", r"the answer is \[ 73 \]", "73", R),
    ("answer is unknown", "The answer is not clear to me, I think 73", "73", R),
    ("later number is no answer", "The answer is 73. I checked 100 cases.", "73", R),
    ("last whole number", "I get 12 and then 73.", "73", R),
    ("last whole number, not the right one", "I get 73 and then 12.", "73", W),
    ("no part of a decimal", "It is 73, about 3.14 times more.", "73", R),
    ("subtraction is no sign", "so 80-7 = 73", "73", R),
    ("index is no number", "It is 73 for x_1", "73", R),
    ("nothing", "", "73", U),
    ("words only", "I cannot solve this.", "73", U),
    ("text answers", r"\boxed{\text{Blue Whale}}", "blue whale", R),
    ("text after answer is", "The answer is Paris.", "Paris", R),
    ("text after answer is, another", "The answer is Rome.", "Paris", W),
    ("text after answer is, and more", "The answer is Paris, the capital of France.", "Paris", R),
    ("text with a comma", "The answer is (1, 2).", "(1, 2)", R),
    ("bold text", "**Answer:** **Paris**", "Paris", R),
    ("last answer is", "The answer is Rome. No: the answer is Paris.", "Paris", R),
    ("fraction expected", "The answer is 1/2.", "1/2", R),
    ("decimal expected", "The answer is 3.5.", "3.5", R),
    ("no sentence for a text", "It may be Paris, or 12.", "Paris", U),
    ("a fraction is no whole number", "The answer is 73/2.", "73", W),
    ("a fraction in LaTeX is none", r"The answer is $\frac{73}{2}$.", "73", W),
    ("a bare fraction in LaTeX is none", r"The answer is \frac{73}{2}.", "73", W),
    ("a fraction that is worked out", r"The answer is \frac{146}{2} = 73.", "73", R),
    ("a decimal is none", "The answer is 73.5.", "73", W),
    ("a decimal that is worked out", "The answer is 147/2 = 73.5.", "73", W),
    ("a sum that is not worked out", "The answer is 73 + 1.", "73", W),
    ("whole, though with zeros", "The answer is 73.0.", "73", R),
    ("remark in parentheses", "The answer is 73 (70 + 3).", "73", R),
    ("doubled backslash", r"\\boxed{73}", "73", R),
    ("escaped brace in a box", r"\boxed{a\{b} c", r"a\{b", R),
    ("more digits than Python reads", r"\boxed{" + "9" * 8000 + "}", "73", W),
    ("as many digits, right", "so " + "9" * 8000, "9" * 8000, R),
    ("zeros before", r"\boxed{" + "0" * 9000 + "73}", "73", R),
    ("full-width digits", "\\boxed{\uff17\uff13}", "73", R),
    ("box far before the end", r"\boxed{73}" + " word" * 5000, "73", R),
    ("escaped dollar in box", r"\boxed{\$73}", "73", R),
    ("escaped dollar and thousands in box", r"\boxed{\$1,073}", "1073", R),
    ("escaped dollar in a sentence", r"The answer is \$73.", "73", R),
    ("so many pi", r"The answer is $73\pi$.", "73", W),
    ("so many pi, bare", r"The answer is 73\pi.", "73", W),
    ("so many pi, last", r"hence $73\pi$", "73", U),
    ("so many pi in box", r"\boxed{73\pi}", "73", W),
    ("imaginary", "The answer is 73i.", "73", W),
    ("times a variable", "The answer is $73x$.", "73", W),
    ("times a number in LaTeX", r"The answer is $73 \cdot 2$.", "73", W),
    ("a factorial", "The answer is $73!$", "73", W),
    ("a cry", "The answer is 73!", "73", R),
    ("a factorial that is worked out", "The answer is $5! = 120$.", "120", R),
    ("braced power", "The answer is $73^{2}$.", "73", W),
    ("power", "The answer is $73^2$.", "73", W),
    ("power, last", "so it is 73^2", "73", U),
    ("power that is worked out", "The answer is 5^2 = 25.", "25", R),
    ("braced power that is worked out", "The answer is 5^{2} = 25.", "25", R),
    ("power and sum that are worked out", "The answer is 2^3 + 1 = 9.", "9", R),
    ("power on the right side", "The answer is 25 = 5^2.", "25", W),
    ("bare degrees", r"The answer is 73^\circ.", "73", R),
    ("bare braced degrees, last", r"It is 73^{\circ}", "73", R),
    ("unit without space", "The answer is 73cm.", "73", R),
    ("unit of one letter", "The answer is 73m.", "73", R),
    ("remainder", r"The answer is $73 \pmod{1000}$.", "73", R),
    ("longer than what is searched", "x" * 300_000 + r"\boxed{73}", "73", R),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "expected", "worth"), [pytest.param(*row, id=name) for name, *row in ANSWERS])
def test_grades(answer, expected, worth):
    assert grade(answer, expected).grade is worth


@pytest.mark.parametrize(
    ("answer", "worth"),
    [
        pytest.param("", T, id="nothing yet"),
        pytest.param(None, T, id="no answer kept"),
        pytest.param("The answer is 7", T, id="a number at the cut may miss digits"),
        pytest.param(r"So \boxed{7", T, id="box cut"),
        pytest.param(r"\boxed{73} To check", R, id="box complete"),
        pytest.param(r"\boxed{74} To check", W, id="wrong box complete"),
    ],
)
def test_what_the_limit_cut_is_graded_only_with_a_complete_box(answer, worth):
    assert grade(answer, "73", truncated=True).grade is worth


def test_grades_add_up_and_accuracy_counts_all_four():
    total = Grades()
    for worth in (R, R, R, W, U, T):
        total += Grades.of(worth)
    assert total == Grades(right=3, wrong=1, unanswered=1, truncated=1)
    assert total.accuracy == 0.5
    assert total.accuracy_answered == 0.75
    assert Grades(unanswered=1).accuracy_answered is None
    assert Grades().accuracy is None


@given(st.text(alphabet="\\boxed{}<think>/ =.,-$0123456789answeri"), st.booleans())
def test_any_text_gets_one_grade(text, truncated):
    assert grade(text, "73", truncated=truncated).grade in Grade


@given(st.integers(0, 999), st.text(alphabet="abc {}$=0123456789"))
def test_a_complete_last_box_decides_whatever_stands_before(number, before):
    assert grade(before + rf" \boxed{{{number:03d}}}", str(number)).grade is R


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(r"\boxed{ ", id="boxes that never close"),
        pytest.param(r"So \boxed{\frac{a}{b} ", id="with braces inside"),
        pytest.param(r"\boxed", id="no brace"),
        pytest.param(" ", id="spaces"),
        pytest.param("\\", id="backslashes"),
        pytest.param("{", id="opening braces"),
        pytest.param("}{", id="closing braces"),
        pytest.param("answer is ", id="answer is"),
        pytest.param("$", id="dollars"),
        pytest.param("9", id="digits"),
        pytest.param("1=", id="equations"),
        pytest.param("=1^{", id="powers"),
        pytest.param(r"\text{a", id="texts"),
    ],
)
@pytest.mark.parametrize(("before", "after"), [("", ""), (r"\boxed{1", "x}"), ("answer is 1", "x"), ("so 9^", "(")])
def test_no_answer_takes_long(before, piece, after):
    """Each of these takes some milliseconds; where the work grows with the square of the text it is minutes."""
    text = before + piece * (200_000 // len(piece)) + after
    began = getrusage(RUSAGE_SELF).ru_utime
    grade(text, "73")
    normal(text)
    assert getrusage(RUSAGE_SELF).ru_utime - began < 5


def test_parts():
    assert without_reasoning("a</think>b</think>c<think>d") == "c"
    assert boxed(r"\boxed{a\{b} c") == r"a\{b"
    assert normal(r"x=\text{ 007 }") == "7"
