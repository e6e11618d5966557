/** The report of a campaign inside the page: with links to its episodes, gates and ideas; printable. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem, text } from "../api";
import { Empty, Failed } from "../parts/Pieces";
import { sentence } from "../parts/use";
import { go } from "../router";

export function ReportPage({ id }: { id: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [state, put] = useState<"loading" | "shown" | Problem>("loading");
  useEffect(() => {
    let urls: string[] = [], gone = false;
    text(`/campaigns/${id}/report`)
      .then((html) => {
        if (gone) return;
        urls = show(html, box.current!);
        put("shown");
      })
      .catch((error: unknown) => gone || put(new Problem(0, sentence(error))));
    return () => {
      gone = true;
      urls.forEach((url) => URL.revokeObjectURL(url));
    };
  }, [id]);
  return (
    <main class="narrow">
      <div class="head unprinted">
        <a href={`/campaigns/${id}`}>← Campaign</a>
        <span class="push acts">
          <a class="button" href={`/api/v1/campaigns/${id}/report`} download={`report-${id}.html`} title="One HTML file that needs no server">↓ Save the file</a>
          <button disabled={state !== "shown"} onClick={() => print()}>Print</button>
        </span>
      </div>
      {state === "loading" && <Empty title="Writing the report…">It checks every record of the campaign, which can take a minute.</Empty>}
      {state instanceof Problem && <Failed sentence={state.message} />}
      <article class="report" ref={box} aria-label="Report" />
    </main>
  );
}

/**
 * Put a report into a shadow root, so that its styles and those of the page do not mix. Returns the URLs of its images.
 * Its own document knows no addresses of this page: elements with `data-to` become links here.
 */
function show(html: string, box: HTMLElement): string[] {
  const root = box.shadowRoot ?? box.attachShadow({ mode: "open" });
  const styles = new CSSStyleSheet();
  styles.replaceSync(/<style>([\s\S]*?)<\/style>/.exec(html)?.[1] ?? "");
  root.adoptedStyleSheets = [styles];
  const urls: string[] = [];
  const inside = html.replace(/^[\s\S]*?<main>/, "").replace(/<\/main>[\s\S]*$/, "").replace(/src="data:(image\/[a-z+]+);base64,([^"]*)"/g, (_, kind: string, data: string) => {
    urls.push(URL.createObjectURL(new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))], { type: kind })));
    return `src="${urls.at(-1)}"`;
  });
  const held = document.createElement("template");
  held.innerHTML = inside;
  for (const one of held.content.querySelectorAll<HTMLElement>("[data-to]")) {
    const link = document.createElement("a");
    link.href = `/${one.dataset["to"]}`;
    link.append(...one.childNodes);
    one.append(link);
    delete one.dataset["to"];
  }
  root.replaceChildren(held.content);
  for (const link of root.querySelectorAll("a")) link.onclick = (click) => {
    if (click.button !== 0 || click.metaKey || click.ctrlKey || click.shiftKey || click.altKey) return;
    click.preventDefault();
    go(link.pathname + link.search + link.hash);
  };
  return urls;
}
