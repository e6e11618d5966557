"""Hooks of `mkdocs build` (mkdocs.yml): pages from the top folder, names of source files, and llms.txt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

TOP = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md"}
"""Page of the site -> the file of the top folder that it shows."""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
SENTENCE = re.compile(r"(.+?[.?])(\s|$)", re.DOTALL)


def links_of_site(text: str, folder: str) -> str:
    """`text` with links as the site has them. A source file is not part of the site: its link becomes its path.

    Args:
        text: Markdown.
        folder: The folder that the links start from: "" for the top folder, or "docs".
    """
    pages = {source: page for page, source in TOP.items()}

    def changed(link: re.Match[str]) -> str:
        label, target = link.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in path:
            return link[0]
        parts = (Path(folder) / path).parts
        whole = "/".join(part for part in parts if part not in (folder, "..")) if ".." in parts else "/".join(parts)
        if whole in pages:
            return f"[{label}]({pages[whole]})"
        if whole.startswith("docs/"):
            return f"[{label}]({whole.removeprefix('docs/')}{'#' + anchor if anchor else ''})"
        return f"`{whole}`" if label.strip("`") in (whole, Path(whole).name) else f"{label} (`{whole}`)"

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(changed, part).replace("](docs/images/", "](images/") for part in parts[::2]]
    return "".join(parts)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the top folder."""
    top = Path(config.config_file_path).parent
    for page, source in TOP.items():
        text = links_of_site((top / source).read_text(encoding="utf-8"), "")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page of docs/."""
    return markdown if page.file.src_uri in TOP else links_of_site(markdown, "docs")


def first_sentence(markdown: str) -> str:
    """The first sentence of the first paragraph of a page, on one line, without links."""
    paragraphs = [part.strip() for part in FENCE.sub("", markdown).split("\n\n")]
    prose = next((part for part in paragraphs if part and part[0] not in "#|!<-*["), "")
    plain = LINK.sub(r"\1", " ".join(prose.split()))
    found = SENTENCE.match(plain)
    return found[1] if found else plain


def on_post_build(config: Any, **_: Any) -> None:
    """Write llms.txt, a list of the pages with their first sentences, and each page as Markdown beside its HTML."""
    top, site = Path(config.config_file_path).parent, Path(config.site_dir)
    sources = {page: top / source for page, source in TOP.items()}
    sources |= {path.name: path for path in sorted((top / "docs").glob("*.md"))}
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for page, source in sources.items():
        text = links_of_site(source.read_text(encoding="utf-8"), "" if page in TOP else "docs")
        (site / page).write_text(text, encoding="utf-8")
        title = text.lstrip().splitlines()[0].lstrip("# ")
        sentence = first_sentence(text)
        lines.append(f"- [{title}]({page})" + (f": {sentence}" if sentence else ""))
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
