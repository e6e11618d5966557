"""The model gateway's process: the only one of a campaign with the keys of providers of language models."""

from __future__ import annotations

import subprocess
from pathlib import Path

from enpire.processes.child_process import ProcessLimits, single_core_environment, start_python
from enpire.processes.model_providers import KEY_VARIABLES

PROGRAM = "agent_loop.model_gateway.process"


def start_model_gateway(home: Path, campaign_id: str) -> subprocess.Popen[bytes]:
    """Start the gateway of a home; it ends with this process. Of two in one home, the second waits for the first."""
    arguments = [str(home), campaign_id, "--die-with-parent"]
    log = home / "agents" / "model_gateway.txt"
    limits = ProcessLimits(nice=5, oom_score=500)
    return start_python(PROGRAM, arguments, log, limits, single_core_environment(*KEY_VARIABLES))
