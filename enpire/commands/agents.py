"""`enpire agent list | run` and `enpire mcp`: agents, one agent session in this terminal, the tools over MCP."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import LARGEST_SEED, AsJson, Home, answer, at_home, existing_home, log, table
from enpire.errors import TransportProblem, UsageError
from enpire.files import is_json_object, shown_path
from enpire.ids import file_name
from enpire.types import Json

NEEDS: Mapping[str, tuple[str, str]] = {"search": ("", ""), "anthropic": ("anthropic", "ANTHROPIC_API_KEY")}
"""Agent -> the package and the environment variable that it needs, empty for nothing."""
TOKEN = "ENPIRE_MCP_TOKEN"

Lane = Annotated[str, typer.Option(help="Name under which you submit.")]
Campaign = Annotated[str, typer.Option(help="Id or name of the campaign; default: the latest.")]


def add_to(app: typer.Typer) -> None:
    """Register the group and `mcp`."""
    group = typer.Typer(
        help="Agents: list, run, code-template, submit-code, adopt-code, revert-code, skills, take-skill.",
        no_args_is_help=True,
    )
    group.command("list")(list_all)
    group.command("run")(run)
    group.command("code-template")(code_template)
    group.command("submit-code")(submit_code)
    group.command("adopt-code")(adopt_code)
    group.command("revert-code")(revert_code)
    group.command("skills")(skills)
    group.command("take-skill")(take_skill)
    app.add_typer(group, name="agent")
    app.command()(mcp)


def list_all(as_json: AsJson = False) -> None:
    """List the agents, what each needs, and whether it is installed."""
    from enpire.plugins import names

    rows = [(name, *_needs(name)) for name in names("agents")]
    head = ("agent", "needs", "state")
    answer([dict(zip(head, row, strict=True)) for row in rows], as_json=as_json, text=table(head, rows))


def run(  # noqa: PLR0913 - the options of a subcommand are its parameters
    name: Annotated[str, typer.Argument(help="Agent, such as search.")],
    lane: Annotated[str, typer.Option(help="Name of the agent session; default: NAME-hand.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the agent.", min=0, max=LARGEST_SEED)] = 0,
    options: Annotated[str, typer.Option(help="Options of the agent, as JSON.")] = "{}",
    campaign: Campaign = "",
    home: Home = None,
) -> None:
    """Run one agent session in this terminal, for the campaign that runs in this home."""
    from enpire.parts import AGENTS, PartGroup, token_limit
    from enpire.service import reading
    from enpire.service.processes import write_agent_job

    part, chosen = AGENTS.load(name), _options(options)
    folder = existing_home(home)
    if not reading.is_driven(folder):
        raise UsageError(
            f"No campaign runs in {folder}, so an agent cannot work; `enpire run{at_home(folder)}` starts one."
        )
    with reading.open_records(folder) as records:
        campaign_id = reading.find_campaign(records, campaign)
        budget = reading.history(records, campaign_id, reading.MARKS).section("budget")
    session = lane or f"{name}-hand"
    place = folder / "agents" / file_name(campaign_id, "a campaign") / file_name(session, "an agent session")
    job = {
        "home": str(folder), "campaign_id": campaign_id, "lane": session, "agent": name, "seed": seed,
        "options": chosen, "work": str(place / "work"), "starts_gateway": True,
        "own": {"tokens": token_limit(part, chosen)},
        "shared": {key: budget[key] for key in ("tokens", "money") if key in budget},
    }  # fmt: skip
    write_agent_job(place, job)
    processes: PartGroup[[list[str]], int] = PartGroup("sessions")
    raise typer.Exit(processes.load("agent_loop.session:main")([str(place)]))


def code_template(
    folder: Annotated[Path, typer.Argument(help="New folder for the files.", metavar="FOLDER")],
) -> None:
    """Write the files of a code candidate to begin with: learner.py, policy.py, recipe.yaml (docs/code.md)."""
    from enpire.service.code import write_template

    write_template(folder)
    shown = shown_path(folder)
    log(f"The template is in {shown}; change it, then: enpire agent submit-code {shown} --statement TEXT")


def submit_code(  # noqa: PLR0913 - the options of a subcommand are its parameters
    folder: Annotated[Path, typer.Argument(help="Folder with learner.py, policy.py, recipe.yaml.", metavar="FOLDER")],
    statement: Annotated[str, typer.Option(help="What the code should improve, in one sentence.")],
    falsifier: Annotated[
        str, typer.Option(help="The observation that would show that this is wrong.")
    ] = "The gate on hidden starts does not promote the candidate.",
    parent: Annotated[str, typer.Option(help="Experiment whose code candidate this one continues.")] = "",
    lane: Lane = "hand",
    campaign: Campaign = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Try the learner and the policy of a folder in the running campaign, as a coding agent does."""
    from enpire.parts import PartGroup
    from enpire.service.code import read_folder

    tools: PartGroup[..., object] = PartGroup("tools")
    client = tools.load("agent_loop.tool_documents:open_client")(existing_home(home), campaign, lane)
    call: PartGroup[..., Mapping[str, str]] = PartGroup("tools")
    files = read_folder(folder)
    claim = {"statement": statement, "falsifier": falsifier, "regime": "code", "kind": "draft"}
    made = call.load("agent_loop.tools:call")(client, "propose_hypothesis", claim)
    sent = {"hypothesis_id": made["hypothesis_id"], "files": files, "parent_experiment": parent}
    done = call.load("agent_loop.tools:call")(client, "submit_code", sent)
    answer(done, as_json=as_json, text=f"Experiment {done['experiment_id']} waits for a training slot.")


def adopt_code(
    experiment: Annotated[str, typer.Argument(help="Experiment with code, or `champion`.", metavar="EXPERIMENT")],
    folder: Annotated[Path, typer.Argument(help="New folder for its files.", metavar="FOLDER")],
    lane: Lane = "hand",
    campaign: Campaign = "",
    home: Home = None,
) -> None:
    """Start your next code candidate from another experiment's code, or from the champion's."""
    _load_code("adopt", {"experiment_id": experiment}, folder, lane, campaign, home)


def revert_code(
    folder: Annotated[Path, typer.Argument(help="New folder for the files.", metavar="FOLDER")],
    to: Annotated[str, typer.Option(help="Experiment or commit of yours; default: what the present continues.")] = "",
    lane: Lane = "hand",
    campaign: Campaign = "",
    home: Home = None,
) -> None:
    """Start your next code candidate from an earlier one of your own."""
    _load_code("revert_code", {"to": to}, folder, lane, campaign, home)


def skills(home: Home = None, as_json: AsJson = False) -> None:
    """List the skills of this home: code of candidates that a gate promoted, and what came of using it again."""
    from enpire.files import plain
    from enpire.service.reading import open_records
    from enpire.service.skills import skill_library

    with open_records(existing_home(home)) as records:
        found = skill_library(records)
    head = ("skill", "name", "task", "commit", "gate", "gain", "used by", "kept", "reverted", "about")
    rows = [
        (one.id, one.name, one.task, one.commit[:12], one.gate_id, f"{100 * one.delta:+.1f} points", str(one.uses),
         str(one.kept), str(one.reverted), one.about)
        for one in found
    ]  # fmt: skip
    text = table(head, rows) if found else "No skill yet: no gate has promoted a code candidate with a file in skills/."
    answer([plain(one) for one in found], as_json=as_json, text=text)


def take_skill(
    skill: Annotated[str, typer.Argument(help="Id of a skill, or its first 6 digits.", metavar="SKILL")],
    folder: Annotated[Path, typer.Argument(help="Folder of your code candidate.", metavar="FOLDER")],
    home: Home = None,
) -> None:
    """Write a skill of this home into the folder of your next code candidate."""
    from enpire.service.reading import open_records
    from enpire.service.skills import add_file, find_skill, path_of, skill_library, text_of

    root = existing_home(home)
    with open_records(root) as records:
        found = find_skill(skill_library(records), skill)
    place = add_file(folder, path_of(found.name), text_of(root, found))
    log(f"The skill {found.name} is in {shown_path(place)}; import it: from skills.{found.name} import NAME")


def _load_code(  # noqa: PLR0913 - the options of a subcommand
    tool: str, arguments: Mapping[str, str], folder: Path, lane: str, campaign: str, home: Home
) -> None:
    """Call a tool that returns the files of a code candidate, and write them into a new folder."""
    from enpire.parts import PartGroup
    from enpire.service.code import require_new, write_files

    require_new(folder)
    tools: PartGroup[..., object] = PartGroup("tools")
    client = tools.load("agent_loop.tool_documents:open_client")(existing_home(home), campaign, lane)
    loaded: PartGroup[..., tuple[str, Mapping[str, str]]] = PartGroup("tools")
    commit, files = loaded.load("agent_loop.tool_documents:load_code")(client, tool, arguments)
    write_files(folder, files)
    log(f"The code of commit {commit[:12]} is in {shown_path(folder)}; your next candidate continues it.")


def mcp(
    http: Annotated[str, typer.Option(help="HOST:PORT to serve over HTTP; default: stdin and stdout.")] = "",
    lane: Annotated[str, typer.Option(help="Name of the agent session of the client.")] = "mcp",
    campaign: Campaign = "",
    home: Home = None,
) -> None:
    """Serve the tools of agents to an MCP client: get_brief, propose_hypothesis, submit_candidate and more."""
    from enpire.parts import PartGroup

    tools: PartGroup[..., object] = PartGroup("tools")
    folder = existing_home(home)
    if not http:
        tools.load("agent_loop.mcp_stdio:serve_lab")(folder, campaign, lane)
        return
    client = tools.load("agent_loop.tool_documents:open_client")(folder, campaign, lane)
    host, _, port = http.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{http!r} is not HOST:PORT; give one such as 127.0.0.1:8765.")
    try:
        socket.create_server((host, int(port))).close()
    except OSError as problem:
        raise TransportProblem(f"Cannot listen on {http} ({problem.strerror}); choose another port.") from problem
    token = os.environ.get(TOKEN) or _token(folder)
    log(f"MCP: http://{http}/mcp")
    tools.load("agent_loop.mcp_server:serve_http")(client, host, int(port), token)


def _needs(name: str) -> tuple[str, str]:
    """(what an agent needs, whether it is ready); does not load the agent."""
    from enpire.plugins import EXTRAS, is_installed

    if name not in NEEDS:
        return "see its package", "installed"
    package, key = NEEDS[name]
    needs = " and ".join(filter(None, (package and f"the package {package}", key))) or "nothing"
    if package and not is_installed(package):
        return needs, f"not installed: pip install 'enpire[{EXTRAS[package]}]'"
    return needs, f"no key: set {key}" if key and not os.environ.get(key) else "ready"


def _options(text: str) -> Mapping[str, Json]:
    example = """'{"tokens": 100000}'"""
    try:
        options: object = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"--options must be JSON, such as {example}: {problem}.") from problem
    if not is_json_object(options):
        raise UsageError(f"--options must be names with values, such as {example}.")
    return options


def _token(home: Path) -> str:
    """The bearer token of this home; created once, readable by its owner only."""
    path = home / "mcp_token"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    log(f"Bearer token: in {path} (or set {TOKEN})")
    return path.read_text(encoding="ascii").strip()
