"""A coding CLI in miniature that writes a code candidate: it edits files in `code` and submits the folder over MCP.

Argument: the command of the MCP server. In a campaign without experiments it hangs after its submission, to be killed.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

server = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
CLAIM = {"statement": "more ridge is better", "falsifier": "no gain", "regime": "offline RL", "kind": "draft"}


def ask(method: str, **parameters: object) -> dict[str, Any]:
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]


def call(name: str, **arguments: object) -> dict[str, Any]:
    answer = ask("tools/call", name=name, arguments=arguments)
    text = answer["content"][0]["text"]
    return {"problem": text} if answer["isError"] else json.loads(text)


ask("initialize", protocolVersion="2025-06-18")
[submit] = [tool for tool in ask("tools/list")["tools"] if tool["name"] == "submit_code"]
begun = call("get_brief")["experiments"]
recipe = Path("code") / "recipe.yaml"
recipe.write_text(recipe.read_text().replace("ridge: 0.1", "ridge: 0.3"))
hypothesis = call("propose_hypothesis", **CLAIM)["hypothesis_id"]
verifier = Path("code") / "verifier.py"
verifier.write_text("def judge(): return True\n")
refused = call("submit_code", hypothesis_id=hypothesis)
verifier.unlink()
accepted = call("submit_code", hypothesis_id=hypothesis)
if not begun:
    time.sleep(3600)
seen = {
    "arguments": sorted(submit["inputSchema"]["properties"]), "refused": refused["problem"],
    "experiment": accepted["experiment_id"],
}  # fmt: skip
print(json.dumps({"type": "end", "text": json.dumps(seen)}))
