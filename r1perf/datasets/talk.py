"""Made talk: questions, follow-ups and plain sentences that read like a person's, of a wanted length in tokens."""

import hashlib
from random import Random

ROLES = (
    "You are a careful assistant of a software company. Answer in plain words and say when you are not sure.",
    "You are a travel planner. Keep answers practical, name prices and times where you know them.",
    "You are a tutor for grown-up learners. Explain step by step and end with one short question.",
    "You help the staff of a hospital with paperwork. Be brief and never guess about a patient.",
    "You are the help desk of an online shop. Be friendly, ask for the order number when it is needed.",
    "You are a cook who answers questions about food. Give amounts in grams and milliliters.",
    "You are an analyst. Begin with the result, then list what supports it and what speaks against it.",
    "You review code. Point out mistakes first, then style, each with one example.",
)
TASKS = (
    "Can you explain {topic} to someone who is new to it?",
    "What are the most common mistakes with {topic}, and how does one avoid them?",
    "Write a short plan for a week in which I learn about {topic}.",
    "I have to give a talk on {topic}. Which five points matter most?",
    "Compare two ways to approach {topic} and say which you would choose.",
    "Please help me write a message to a colleague about {topic}.",
    "How did {topic} change over the last twenty years?",
    "What should I ask an expert about {topic}?",
    "Make a checklist for somebody who deals with {topic} for the first time.",
    "Which numbers should I know to judge {topic}?",
)
TOPICS = (
    "database indexes", "home insurance", "the water cycle", "running a small bakery", "solar panels on a flat roof",
    "version control", "bicycle repair", "reading a balance sheet", "train travel with children", "growing tomatoes",
    "password managers", "the causes of inflation", "learning the piano", "storing wine", "urban planning", "load testing",
    "first aid", "writing a novel", "heat pumps", "the rules of chess", "moving to another country", "bread with rye flour",
    "public speaking", "machine translation", "caring for an old dog", "network latency", "a marathon in autumn",
    "the history of printing", "tax returns", "night photography", "queueing theory", "a garden in the shade",
)  # fmt: skip
FOLLOW_UPS = (
    "Can you give an example of that?",
    "Please make the second part shorter.",
    "Why is that so?",
    "What would you do differently with half the money?",
    "How certain are you about this, and where could I check it?",
    "Put this into a table with three columns.",
    "What is the first step I should take tomorrow?",
    "That is too long. Say it in three sentences.",
    "Now explain it as you would to a child of ten.",
    "What did you leave out?",
    "Does this still hold in winter?",
    "Turn this into a list of questions.",
)
_WHO = ("My brother", "The manager", "A neighbor", "Our teacher", "The doctor", "A friend", "The other team", "My daughter")
_DID = ("said that", "wrote that", "asked whether", "doubts that", "thinks that", "found that", "read that", "hopes that")
_WHAT = (
    "the old plan",
    "this method",
    "a new machine",
    "the second answer",
    "the cheap version",
    "that long list",
    "one more week",
)
_VERB = (
    "costs more than",
    "works better than",
    "depends on",
    "is part of",
    "comes before",
    "has little to do with",
    "stands behind",
)
_WITH = (
    "the first idea",
    "the main problem",
    "what we did last year",
    "the small office",
    "the weather",
    "other people",
    "the new rules",
)

TOKENS_PER_WORD = 1.08
"""Measured on this module's text with the DeepSeek-V3/R1 tokenizer: tokens (punctuation among them) per word."""


def opening(random: Random, tokens: int, *key: object) -> str:
    """Make the first message of a conversation."""
    return _filled(random.choice(TASKS).format(topic=random.choice(TOPICS)), tokens, *key)


def follow_up(random: Random, tokens: int, *key: object) -> str:
    """Make a later message."""
    return _filled(random.choice(FOLLOW_UPS), tokens, *key)


def system_prompt(number: int, tokens: int, *key: object) -> str:
    """Make the number-th system prompt."""
    return _filled(ROLES[number % len(ROLES)], tokens, "system", number, *key)


def sentences(tokens: int, *key: object) -> str:
    """Make whole sentences of about so many tokens, at least one."""
    words = max(1, round(tokens / TOKENS_PER_WORD))
    # A sentence has at least 8 words, and takes 5 bytes of the hash.
    drawn = hashlib.shake_128("\x1f".join(map(str, key)).encode()).digest(5 * (words // 8 + 1))
    made: list[str] = []
    for at in range(0, len(drawn), 5):
        who, did, what, verb, other = (
            part[byte % len(part)] for part, byte in zip((_WHO, _DID, _WHAT, _VERB, _WITH), drawn[at : at + 5], strict=True)
        )
        sentence = f"{who} {did} {what} {verb} {other}."
        made.append(sentence)
        words -= sentence.count(" ") + 1
        if words <= 0:
            break
    return " ".join(made)


def _filled(text: str, tokens: int, *key: object) -> str:
    """Lengthen a text with sentences to about so many tokens; a text that is longer stays whole."""
    left = tokens - (text.count(" ") + 1) * TOKENS_PER_WORD
    return text if left < 8 else f"{text} {sentences(round(left), *key)}"
