"""A coding CLI in miniature, of the standard library alone: it lists the tools, uses one, asks the model, and reports.

Arguments: the command of the MCP server, the model gateway's address, the lease, a file that it must not see.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

tools, gateway, lease, hidden = sys.argv[1:5]
server = subprocess.Popen([tools], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(number: int, method: str, **parameters: object) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]


ask(1, "initialize", protocolVersion="2025-06-18")
names = [tool["name"] for tool in ask(2, "tools/list")["tools"]]
brief = json.loads(ask(3, "tools/call", name="get_brief", arguments={})["content"][0]["text"])
wrong = ask(4, "tools/call", name="fly_away", arguments={})
question = {"model": "a-model", "max_tokens": 100, "messages": [{"role": "user", "content": "Well?"}]}
headers = {"content-type": "application/json", "x-api-key": lease}
request = urllib.request.Request(f"{gateway}/v1/messages", json.dumps(question).encode(), headers)
try:
    answer = json.loads(urllib.request.urlopen(request).read())["content"][0]["text"]
    usage = {"in": 20, "read": 400, "written": 80, "out": 50}
except urllib.error.HTTPError as refused:
    answer, usage = json.loads(refused.read())["error"]["message"], {"in": 0, "read": 0, "written": 0, "out": 0}
server.communicate()
seen = {
    "tools": len(names), "lane": brief["lane"], "refused": wrong["isError"], "answer": answer,
    "keys": [name for name in os.environ if name.endswith("_KEY")], "home": os.environ["HOME"],
    "hidden": Path(hidden).exists(),
}  # fmt: skip
print("not JSON")
print(json.dumps({"type": "end", "text": json.dumps(seen), "usage": usage}))
sys.exit(0 if answer == "yes" else 3)
