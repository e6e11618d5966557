/** What every page has: the pages, how fresh the picture is, Stop fleet, who is signed in. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { age, stale } from "../clock";
import { asking, command, refusal } from "../command";
import { path } from "../router";
import { signOut, standing } from "../session";
import { fleet } from "../socket";
import { nextTheme, theme } from "../theme";

const PAGES = [
  ["/", "Fleet"],
  ["/campaigns", "Campaigns"],
  ["/episodes", "Episodes"],
  ["/settings", "Settings"],
] as const;
const THEMES = { system: "◐ System", light: "☀ Light", dark: "☾ Dark" };

export function Shell({ children }: { children: ComponentChildren }) {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && event.shiftKey) {
        event.preventDefault();
        asking.value = true;
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const here = (address: string) => (address === "/" ? path.value === "/" : path.value.startsWith(address));
  return (
    <>
      <a class="skip" href="#content">Skip to the content</a>
      <header class="bar">
        <a class="brand" href="/"><img src="/icon.svg" alt="" />ENPIRE</a>
        <nav class="tabs" aria-label="Pages">
          {PAGES.map(([address, name]) => (
            <a href={address} aria-current={here(address) ? "page" : undefined}>{name}</a>
          ))}
        </nav>
        <Age />
        <button class="danger" onClick={() => (asking.value = true)} title="Stop every robot (Shift+Esc)">
          <span aria-hidden="true">■</span> Stop fleet <kbd class="optional">⇧ Esc</kbd>
        </button>
        <span class="who">
          <span class="optional">{standing.value?.name} · {standing.value?.role}</span>
          <button class="quiet optional" onClick={nextTheme} title="Light, dark, or as the system">{THEMES[theme.value]}</button>
          <button class="quiet" onClick={() => void signOut()}>Sign out</button>
        </span>
      </header>
      {refusal.value && (
        <main style={{ paddingBottom: 0 }}>
          <div class="notice" role="alert">
            {refusal.value} <button class="quiet" onClick={() => (refusal.value = "")}>Dismiss</button>
          </div>
        </main>
      )}
      <div id="content">{children}</div>
      <StopQuestion />
    </>
  );
}

function Age() {
  const old = stale.value;
  const text = age.value === Infinity ? "connecting" : old ? `stale ${age.value.toFixed(0)} s` : `live ${age.value.toFixed(1)} s`;
  return (
    <span class={`live num ${old ? "stale" : ""}`} title="Age of the last message of the server">
      <i aria-hidden="true" />{text}
    </span>
  );
}

function StopQuestion() {
  const box = useRef<HTMLDialogElement>(null);
  const open = asking.value;
  useEffect(() => {
    if (open && !box.current?.open) box.current?.showModal();
    if (!open && box.current?.open) box.current.close();
  }, [open]);
  const count = Object.keys(fleet.value?.stations ?? {}).length;
  const confirm = () => {
    asking.value = false;
    void command("stop", "");
  };
  return (
    <dialog ref={box} onClose={() => (asking.value = false)} aria-labelledby="stop-title">
      <h2 id="stop-title">Stop every robot now?</h2>
      <p class="soft">
        {count ? `${count} station${count > 1 ? "s" : ""} hold still at once` : "Every station holds still at once"} and stay
        stopped until somebody resumes them. Running episodes end as aborted.
      </p>
      <div class="row">
        <button onClick={() => (asking.value = false)}>Cancel</button>
        <button class="danger" autofocus onClick={confirm}>■ Stop fleet</button>
      </div>
    </dialog>
  );
}
