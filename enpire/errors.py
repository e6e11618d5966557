"""What can go wrong, as a tree.

    EnpireError                 one clear sentence: what, where, what is allowed, what to do
    ├── UsageError              the caller asked for something that does not exist or does not fit
    │   ├── FileProblem         a file is missing, unreadable, or says something that is not allowed
    │   └── UnknownName         no plug-in, task, station, campaign or version has that name
    ├── MissingExtra            a part needs a package that is not installed
    ├── LedgerProblem           the ledger cannot be opened, is locked, or does not verify
    │   ├── OldSchema           an older version wrote it; the next writer migrates it
    │   └── CutWrite            a process died while it wrote; the next writer undoes that write
    ├── StorageFull             the disk refused a write that must not be lost
    │   └── NothingOpens        too many files and connections are open to open one more
    ├── OutcomeUnknown          the disk failed during a write: read what was written, do not write it again
    ├── TransportProblem        an address is in use, a peer is refused, a message is malformed
    │   └── PeerSilent          no process answers at that address
    ├── PolicyProblem           a policy cannot be loaded, or returned what no robot may execute
    ├── RobotProblem            a robot cannot be reached, or refuses to move
    │   └── EnvelopeViolation   a command or a state left the safety envelope
    ├── LearningProblem         a training run cannot continue (divergence, no data)
    └── ProcessKilled           a signal ended the process of a code candidate; its work can begin again

The command line prints the sentence and exits with 1; a traceback needs `--debug`.
"""

from __future__ import annotations


class EnpireError(Exception):
    """Root of every error that ENPIRE raises on purpose; its text is one sentence for a person."""


class UsageError(EnpireError):
    """The caller asked for something that does not exist or does not fit."""


class FileProblem(UsageError):
    """A file is missing, unreadable, or says something that is not allowed."""


class UnknownName(UsageError):
    """No plug-in, task, station, campaign or version has that name."""


class MissingExtra(EnpireError):
    """A part needs a package that is not installed; the text names the extra."""


class LedgerProblem(EnpireError):
    """The ledger cannot be opened, is locked by another process, or does not verify."""


class UnrecordableEvent(LedgerProblem):
    """An event holds what the ledger cannot write, such as half a character; nothing was written."""


class OldSchema(LedgerProblem):
    """A ledger that an older version wrote; its next writer migrates it."""


class CutWrite(LedgerProblem):
    """A process died while it wrote the ledger; the next writer undoes that write."""


class StorageFull(EnpireError):
    """The disk refused a write that must not be lost."""


class NothingOpens(StorageFull):
    """Too many files and connections are open to open one more."""


class OutcomeUnknown(EnpireError):
    """The disk failed during a write, which may be stored or not: read what was written, do not write it again."""


class TransportProblem(EnpireError):
    """An address is in use, a peer is refused, or a message is malformed."""


class PeerSilent(TransportProblem):
    """No process answers at that address."""


class PolicyProblem(EnpireError):
    """A policy cannot be loaded, or returned what no robot may execute."""


class RobotProblem(EnpireError):
    """A robot cannot be reached, or refuses to move."""


class EnvelopeViolation(RobotProblem):
    """A command or a measured state left the safety envelope."""


class LearningProblem(EnpireError):
    """A training run cannot continue: it diverged, or there is no data."""


class ProcessKilled(EnpireError):
    """A signal ended the process that ran a candidate's code, as kill -9 does; its work can begin again."""
