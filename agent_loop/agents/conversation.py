"""The conversation of the agent `anthropic` with its model: each message is kept before anything follows from it.

A session that was killed continues with the last kept message, so no answer of the model is paid for twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from agent_loop.agent_context import AgentContext
from agent_loop.agents.code_folder import CodeFolder
from agent_loop.agents.model import Block
from enpire.errors import EnpireError
from enpire.ids import mint

NO_IMAGE = {"type": "text", "text": "[An image was here. It is not kept over a restart; ask for the episode again.]"}


class ConversationFull(EnpireError):
    """The conversation holds as much as can be kept."""


class Conversation:
    """The messages of one turn of the agent, and the folder with its code."""

    def __init__(self, context: AgentContext) -> None:
        self.messages: list[Block] = []
        self.folder = CodeFolder()
        self.over = True
        """Whether the next turn begins a new conversation."""
        self.turn = ""
        """Id of the turn, so that two turns that say the same are not one."""
        self._context = context
        self._kept_files: dict[str, str] = {}
        for line in context.kept:
            record: dict[str, Any] = json.loads(line)
            self.messages.append(record["message"])
            self.turn = record.get("turn", self.turn)
            self.folder.files = self._kept_files = record.get("files", self._kept_files)
        self.over = not self.messages or (self.is_answered and not self.used)

    @property
    def is_answered(self) -> bool:
        """Whether the last message is the model's."""
        return self.messages[-1]["role"] == "assistant"

    @property
    def used(self) -> list[Block]:
        """The tool calls of the last message."""
        return [block for block in self.messages[-1]["content"] if block["type"] == "tool_use"]

    @property
    def answers(self) -> int:
        """Answers of the model so far."""
        return sum(message["role"] == "assistant" for message in self.messages)

    def call_id(self, number: int) -> str:
        """An id for a tool call of the last message, from what is kept of the conversation: a restart repeats it."""
        kept = [{**one, "content": [_kept(block) for block in one["content"]]} for one in self.messages]
        return hashlib.sha256(json.dumps([number, *filter(None, [self.turn]), kept]).encode()).hexdigest()

    @property
    def question_id(self) -> str:
        """An id for the question to the model that the conversation is now: a restart repeats it."""
        return self.call_id(-1)

    def begin(self, text: str, images: Iterable[Block] = ()) -> None:
        """Begin a new conversation with a text to the model, and images; the folder keeps its files."""
        self.messages, self.over, self.turn = [], False, mint()
        self.add("user", [{"type": "text", "text": text}, *images])

    def add(self, role: str, blocks: list[Block]) -> None:
        """Add a message; keep and log it without images.

        Raises:
            ConversationFull: nothing more can be kept; the conversation is over.
        """
        message: Block = {"role": role, "content": blocks}
        record: dict[str, object] = {"message": {**message, "content": [_kept(block) for block in blocks]}}
        if not self.messages:
            record["turn"] = self.turn
        if not self.messages or self.folder.files != self._kept_files:
            record["files"] = self.folder.files
        if not self._context.keep(json.dumps(record), not self.messages):
            self.over = True
            raise ConversationFull("The conversation holds as much as can be kept, so it ended.")
        self._kept_files = self.folder.files
        self.messages.append(message)
        self._context.log(json.dumps(record["message"]))


def _kept(block: Block) -> Block:
    """A block without images."""
    if block["type"] == "image":
        return NO_IMAGE
    if isinstance(block.get("content"), list):
        return {**block, "content": [NO_IMAGE if one["type"] == "image" else one for one in block["content"]]}
    return block
