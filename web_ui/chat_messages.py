"""Messages for a chat in Slack's form, which Mattermost, Rocket.Chat and Discord (at /slack) also read.

Text from outside (names, alarms, sentences of agents and operators) stays text: it notifies no person, links nothing
and begins no second line. Marks for bold or italic letters are left in it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from web_ui.documents import Alarm
from web_ui.stills import AlarmImage, TakenStill

LONGEST = 600
"""Most characters of one text from outside; Discord refuses a message above 2,000."""
LONGEST_NAME = 80
NAMED = 8
"""Most names in a message."""
_GAP = "\N{ZERO WIDTH SPACE}"
_BROKEN = {sign: sign[:1] + _GAP + sign[1:] for sign in ("@", "://", "](")} | {"www.": f"www{_GAP}."}
"""What would notify people (Mattermost and Discord: @all, @everyone) or become a link -> the same with a gap."""


def quoted(text: str, longest: int = LONGEST) -> str:
    """Text from outside as one line that a chat shows as it is."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    line = line if len(line) <= longest else f"{line[: longest - 1]}…"
    for sign, broken in _BROKEN.items():
        line = line.replace(sign, broken)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text_of(campaign: str, alarm: Alarm) -> str:
    """One alarm as a line: what, where, and what holds without an answer."""
    names = ", ".join(quoted(name, LONGEST_NAME) for name in alarm.names[:NAMED])
    more = f" and {len(alarm.names) - NAMED} more" if len(alarm.names) > NAMED else ""
    default = f" Without an answer: {quoted(alarm.default)}." if alarm.default else ""
    return f"{quoted(campaign, LONGEST_NAME)}: {quoted(alarm.text)} ({names}{more}).{default}"


def message(text: str, page: str, still: TakenStill | None = None, *, local: bool = False) -> Mapping[str, object]:
    """The body of a message.

    Args:
        text: one line; what comes from outside is `quoted` in it.
        page: address of the page; empty for none.
        still: image of the message. It is an attachment, which chats show; Slack would refuse a block whose image it
            cannot load.
        local: whether only the lab's machine can open the page.
    """
    link = f"\n<{page}/inbox|Open the inbox>" if page else ""
    if page and local:
        link += " on the lab's machine; other machines cannot open this address."
    body: dict[str, object] = {"text": f":warning: ENPIRE {text}{link}"}
    if still is not None:
        station, camera = (quoted(name, LONGEST_NAME) for name in (still.image.station, still.image.camera))
        shown = f"{station}, camera {camera}, {_when(still.image)}"
        body["attachments"] = [{"fallback": shown, "text": shown, "image_url": f"{page}{still.path}"}]
    return body


def _when(image: AlarmImage) -> str:
    """When an image was taken, and how long after the beginning of its alarm."""
    at = time.strftime("%H:%M:%S UTC", time.gmtime(image.came_ns / 1e9))
    after_s = (image.came_ns - image.of_ns) / 1e9
    return f"{at}, {after_s:.0f} s after the alarm began" if after_s >= 1 else f"{at}, when the alarm began"
