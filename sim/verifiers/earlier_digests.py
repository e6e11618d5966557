"""Digests that the shipped verifiers had while docstrings still counted (ENPIRE up to commit 0ea805b).

A campaign that began with one of these resumes, as the judgement is the same. A row counts only while the code of the
verifier has exactly the digest `now`. After a change of a verifier, or of a module that it imports, remove its row: it
is another verifier then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierDigest:
    """Two digests of one judgement."""

    before: str
    """Of thresholds and source text, at commit 0ea805b."""
    now: str
    """Of thresholds and code."""


EARLIER: Mapping[str, EarlierDigest] = {
    "pin_insertion": EarlierDigest(
        before="3e043f3d46195591ee941807b73c4bcf3edbd8d7a0629a462d0f399497ab5fcd",
        now="8aae4328f194eca4e262c4300607cff04c568e897b7ae2f81f003001ee13e23c",
    ),
    "pin_insertion_blind": EarlierDigest(
        before="4bec5da87e2fafa5a04b5f20ea4044428d892421a73eb38c40de5b813f593e65",
        now="9a3bc686d848390fa967a5edd1b89ac0a6f3cd1171f4664d7435b22de4e8d309",
    ),
    "push_t": EarlierDigest(
        before="dc7d6cac9351a2bb9ef030741dbb9163627bf4a18b6342eadbf9ac4acf0341a3",
        now="eb05ddff984897828fb5d99b582f74c8b42bb0e2248cc542aca57860990e6a98",
    ),
    "gpu_insertion": EarlierDigest(
        before="38037dc1e3ce89ac0ca88396e05f101f27dd52e59f55bc0681f340c1cc01b37c",
        now="c15604e1d766bd2ca2a783a34d4cbde9e8594ead5c2a7e37ad45336e0a69115f",
    ),
    "ziptie_cutting": EarlierDigest(
        before="f5f8cbf899881f1c800ff7352810dcf4df9d9bd14d45d0327d62e65dcbd51ea1",
        now="f062fdbfe327e13f8e09c2e58aaa818da22c5056e47936522d16e30282d96e1a",
    ),
    "bag_packing": EarlierDigest(
        before="432f4b7922b3e49f0c6948b41982e9d12a70391efe5bc52af3d9856d299340a9",
        now="787dfbaf4463884e6975bdc4c18d324e390023210d37dd7a02c8b4ac1ff2ebab",
    ),
}
"""Task -> digests of its shipped verifier."""


def earlier_digest(digest: str) -> str:
    """The digest that the verifier of this digest had before; empty where there is none."""
    return next((row.before for row in EARLIER.values() if row.now == digest), "")
