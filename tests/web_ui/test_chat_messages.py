"""Text from outside in messages to a chat, and the still images that go with them."""

from __future__ import annotations

import pytest

from enpire.wire.live_images import Preview
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.chat_messages import LONGEST, message, quoted, text_of
from web_ui.documents import Alarm
from web_ui.stills import EARLIEST_NS, LATEST_NS, MOST, AlarmImage, Stills, TakenStill

GAP = "\N{ZERO WIDTH SPACE}"
JPEG = b"\xff\xd8 an image \xff\xd9"
NOW_NS = 1_795_357_848 * 10**9


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<!channel> & <https://x.example|Sign in>", f"&lt;!channel&gt; &amp; &lt;https:{GAP}//x.example|Sign in&gt;"),
        ("done\n:white_check_mark: all clear\r\n\t", "done :white_check_mark: all clear"),
        ("@everyone see [here](http://evil.example)", f"@{GAP}everyone see [here]{GAP}(http:{GAP}//evil.example)"),
        ("www.evil.example", f"www{GAP}.evil.example"),
        ("left\u202eright\u2028next\x00end", "left right next end"),
        ("&amp;" * 2, "&amp;amp;&amp;amp;"),
    ],
)  # fmt: skip
def test_text_from_outside_stays_text(text: str, shown: str) -> None:
    assert quoted(text) == shown


def test_long_text_is_cut_before_it_is_escaped() -> None:
    assert quoted("<" * 5000) == "&lt;" * (LONGEST - 1) + "…"


HOSTILE = "<!here>\n@all http://evil.example"
SHOWN = f"&lt;!here&gt; @{GAP}all http:{GAP}//evil.example"


def test_every_text_of_a_message_is_quoted() -> None:
    made = Alarm(
        key="k", text=HOSTILE, tone="bad", names=(HOSTILE, *"abcdefgh"), since_ms=0, newest_ms=0, responses=(),
        default=HOSTILE, acknowledged_by="",
    )  # fmt: skip
    line = text_of(HOSTILE, made)
    assert line == f"{SHOWN}: {SHOWN} ({SHOWN}, a, b, c, d, e, f, g and 1 more). Without an answer: {SHOWN}."
    image = AlarmImage(station=HOSTILE, camera=HOSTILE, jpeg=b"", came_ns=NOW_NS, of_ns=NOW_NS)
    still = TakenStill(path="/stills/x.jpg", image=image)
    body = message(line, "https://lab.example.org", still)
    when = "14:30:48 UTC, when the alarm began"
    shown = f"{SHOWN}, camera {SHOWN}, {when}"
    assert body == {
        "text": f":warning: ENPIRE {line}\n<https://lab.example.org/inbox|Open the inbox>",
        "attachments": [
            {"fallback": shown, "text": shown, "image_url": "https://lab.example.org/stills/x.jpg"}
        ],
    }  # fmt: skip
    assert len(text_of("n" * 9999, Alarm(
        key="k", text="t" * 9999, tone="bad", names=("s" * 99,) * 99, since_ms=0, newest_ms=0, responses=(),
        default="d" * 9999, acknowledged_by="",
    ))) < 2100  # fmt: skip


def image_at(after_ns: int) -> AlarmImage | None:
    lab = ScriptedLab(pictures={("sim-2", "front"): Preview(jpeg=JPEG, came_ns=NOW_NS + after_ns)})
    return Stills(lab).look(["sim-1", "sim-2"], NOW_NS)


def test_an_image_is_of_the_time_of_its_alarm_and_says_when() -> None:
    for after_ns in (EARLIEST_NS - 1, LATEST_NS + 1, -NOW_NS + 1):
        assert image_at(after_ns) is None
    for after_ns, when in ((EARLIEST_NS, "when"), (0, "when"), (LATEST_NS, "15 s after")):
        image = image_at(after_ns)
        assert image is not None
        still = Stills(ScriptedLab()).keep(image)
        assert f"UTC, {when} the alarm began" in str(message("text", "https://lab.example.org", still)["attachments"])


def test_a_still_ends_with_its_time_when_there_are_too_many_and_when_images_are_switched_off() -> None:
    image = image_at(0)
    assert image is not None

    def kept(stills: Stills) -> str:
        return stills.keep(image).path.rpartition("/")[2]

    brief = Stills(ScriptedLab(), lasts_s=0)
    assert brief.find(kept(brief)) is None
    stills = Stills(ScriptedLab())
    names = [kept(stills) for _ in range(MOST + 1)]
    assert [stills.find(name) for name in names] == [None, *([JPEG] * MOST)]
    assert len(set(names)) == MOST + 1
    stills.forget()
    assert stills.find(names[-1]) is None
