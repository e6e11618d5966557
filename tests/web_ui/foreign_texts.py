"""Parts of paths, bodies, queries and headers that no honest client sends."""

from __future__ import annotations

import json

DIGITS = "9" * 5000
SEGMENTS = (
    "%00", "a%00b", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "x" * 30_000, "%ff%fe", "%ed%a0%80", DIGITS, "%0d%0aset-cookie",
    "{0.__class__}", "-1", "..", "%25s%25n", "a" * 255 + ".jpg", "top_99999.jpg", "top_\u0663.jpg",
)  # fmt: skip
BODIES: tuple[bytes, ...] = (
    b"[" * 100_000, b'{"a":' * 40_000, b'{"verb": ' + DIGITS.encode() + b"}", b"\xff\xfe", b"\0", b'"\\ud800"', b"",
    b"{}", b'{"verb": "\\u0000", "target": "\\u0000", "name": "\\u0000", "password": "\\u0000", "role": "\\u0000"}',
    b'{"verb": "stop", "target": "\\ud800", "name": "\\ud800", "password": "\\ud800", "role": "admin"}',
    b'{"verb": 1e400, "name": NaN}', b"null", json.dumps({"name": "x" * 200_000}).encode(), b'{"verb": "stop"}x',
)  # fmt: skip
QUERIES = (
    {"limit": DIGITS}, {"after": DIGITS}, {"before": "\0"}, {"round": "1e400"}, {"campaign": "\0"},
    {"points": "-" + DIGITS}, {"station": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")},
    {"policy": "%"}, {"outcome": "\0"},
)  # fmt: skip
HEADERS = (
    {"content-length": DIGITS}, {"content-length": "\u00b2"}, {"content-length": "-1"}, {"origin": "http://["},
    {"origin": "http://127.0.0.1:" + DIGITS}, {"host": "["}, {"host": "127.0.0.1:" + DIGITS}, {"host": "\u00b2"},
    {"authorization": "Bearer " + "x" * 50_000}, {"authorization": "Bearer \u00ff\u0000"},
    {"authorization": "Basic \u00ff"},
    {"cookie": "enpire=\u00ff; ;;=;" * 1000}, {"idempotency-key": "x" * 50_000}, {"content-type": "application/\u00ff"},
    {"x-forwarded-for": "[" * 5000}, {"range": f"bytes={DIGITS}-"}, {"accept-encoding": ";q=" + DIGITS},
)  # fmt: skip
