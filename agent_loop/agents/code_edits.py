"""Structured edits of the template of code candidates: `search` writes code without a language model.

The template has *slots*: places where one text may be replaced by another. A candidate is a choice for each slot, so it
is always whole code, and the operators of settings (perturb, ablate, recombine) apply to choices. The choices of an
earlier candidate are read from its files; nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

Files = Mapping[str, str]
Choices = Mapping[str, str]
"""Slot -> its choice; a slot that is left out is as in the template."""
TRIES = 64
"""Draws after which there is nothing new to try."""
RECOMBINE, ABLATE = 0.3, 0.2
"""Shares of the steps that take choices of another candidate, and that undo one."""
_FEATURES = {
    "learner.py": "np.hstack([scaled, scaled**2, np.ones((len(scaled), 1))])",
    "policy.py": "np.concatenate([scaled, scaled**2, [1.0]])",
}  # fmt: skip
_SUCCESSES = '        if episode.outcome == "success":'


def _features(terms: str) -> dict[str, str]:
    return {
        "learner.py": f"np.hstack([{terms}, np.ones((len(scaled), 1))])",
        "policy.py": f"np.concatenate([{terms}, [1.0]])",
    }  # fmt: skip


def _of_fastest(share: float) -> dict[str, str]:
    """Learns from this share of the successes, the fastest."""
    limit = f'np.quantile([one.ticks for one in job.episodes if one.outcome == "success"], {share})'
    condition = f'        if episode.outcome == "success" and episode.ticks <= {limit}:'
    return {"learner.py": condition}


def _of_policy(text: str, as_it_is: str, *others: str) -> tuple[Files, Mapping[str, Files]]:
    """A slot of policy.py whose text has one place for a value."""
    choices = {other.removesuffix(" * "): {"policy.py": text.format(other)} for other in others}
    return {"policy.py": text.format(as_it_is)}, choices


SLOTS: Mapping[str, tuple[Files, Mapping[str, Files]]] = {
    "features": (_FEATURES, {
        "cubic": _features("scaled, scaled**2, scaled**3"),
        "bounded": _features("scaled, np.tanh(scaled), np.tanh(3.0 * scaled)"),
        "near": _features("scaled, scaled**2, np.exp(-(scaled**2)), np.exp(-9.0 * scaled**2)"),
    }),
    "episodes": ({"learner.py": _SUCCESSES}, {"fastest half": _of_fastest(0.5), "fastest quarter": _of_fastest(0.25)}),
    "horizon": _of_policy("HORIZON = {}\n", "4", "8", "16"),
    "execute": _of_policy("EXECUTE = {}\n", "4", "1", "2"),
    "pace": _of_policy("return ({}features @ self.weights)", "", "1.1 * ", "1.25 * ", "1.5 * "),
    "ridge": (
        {"recipe.yaml": "ridge: 0.1"}, {"0.001": {"recipe.yaml": "ridge: 0.001"}, "10": {"recipe.yaml": "ridge: 10.0"}},
    ),
}  # fmt: skip
"""Slot -> (its texts in the template: path -> text, choice -> the texts in their place)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An earlier candidate whose code is the template with choices."""

    experiment_id: str
    hypothesis_id: str
    choices: Choices
    merit: float
    """Greater is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeStep:
    """The next candidate."""

    kind: str
    why: str
    choices: Choices
    sources: tuple[Candidate, ...] = ()


def written(template: Files, choices: Choices) -> dict[str, str]:
    """The files of the template with choices."""
    files = dict(template)
    for slot, choice in choices.items():
        old, options = SLOTS[slot]
        for path, text in options[choice].items():
            files[path] = files[path].replace(old[path], text)
    return files


def choices_of(files: Files, template: Files) -> Choices | None:
    """The choices with which the template gives these files; None if it does not."""
    found = {
        slot: choice for slot, (old, options) in SLOTS.items() for choice, texts in options.items()
        if all(text in files.get(path, "") and old[path] not in files[path] for path, text in texts.items())
    }  # fmt: skip
    code = {path: text for path, text in files.items() if path != "README.md"}
    return found if code == {**template, **written(template, found)} else None


def next_code(known: Sequence[Candidate], draw: Random) -> CodeStep | None:
    """The next candidate; None where nothing new is found. It depends on its arguments alone."""
    tried = [one.choices for one in known]
    if {} not in tried:
        return CodeStep(kind="draft", why="the template as it is", choices={})
    best, *others = sorted(known, key=lambda one: one.merit, reverse=True)
    for _ in range(TRIES):
        step = _step(best, [one for one in others if one.choices and one.merit > 0], draw)
        if step.choices not in tried:
            return step
    return None


def _step(best: Candidate, others: Sequence[Candidate], draw: Random) -> CodeStep:
    way = draw.random()
    if others and way < RECOMBINE:
        other = draw.choice(others)
        why = f"the code of {best.experiment_id[-6:]} with choices of {other.experiment_id[-6:]}"
        return CodeStep(kind="merge", why=why, choices={**best.choices, **other.choices}, sources=(best, other))
    if best.choices and way < RECOMBINE + ABLATE:
        slot = draw.choice(sorted(best.choices))
        choices = {name: choice for name, choice in best.choices.items() if name != slot}
        return CodeStep(
            kind="ablate", why=f"whether {slot} {best.choices[slot]} mattered", choices=choices, sources=(best,)
        )
    slot = draw.choice(sorted(SLOTS))
    choice = draw.choice([one for one in SLOTS[slot][1] if one != best.choices.get(slot)])
    choices = {**best.choices, slot: choice}
    return CodeStep(kind="improve", why=f"{slot} {choice}", choices=choices, sources=(best,))
