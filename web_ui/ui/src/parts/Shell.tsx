/** What every page has: the pages, how fresh the picture is, Stop fleet, who is signed in. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { age, labAge, STALE_S, stale } from "../clock";
import { askToStop, command, question, refusal } from "../command";
import { path } from "../router";
import { causes } from "./Attention";
import { signOut, standing } from "../session";
import { fleet } from "../socket";
import { nextTheme, theme } from "../theme";

const PAGES = [
  ["/", "Fleet"],
  ["/campaigns", "Campaigns"],
  ["/episodes", "Episodes"],
  ["/policies", "Policies"],
  ["/settings", "Settings"],
] as const;
const THEMES = { system: "◐ System", light: "☀ Light", dark: "☾ Dark" };

const stop = () => askToStop(Object.keys(fleet.value?.stations ?? {}).length);

export function Shell({ children }: { children: ComponentChildren }) {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && event.shiftKey) {
        event.preventDefault();
        stop();
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
            <a href={address} aria-current={here(address) ? "page" : undefined}>{name}{address === "/" && <Waiting />}</a>
          ))}
        </nav>
        <Age />
        <button class="danger" onClick={stop} title="Stop every robot (Shift+Esc)">
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
      <Asked />
    </>
  );
}

/** How many stations need a person, on every page. */
function Waiting() {
  const names = causes(Object.values(fleet.value?.stations ?? {})).flatMap((cause) => cause.names);
  if (!names.length || stale.value) return null;
  return <span class="badge" title={`${names.join(", ")} need a person`}><span aria-hidden="true">⚠ </span>{names.length}<span class="visually-hidden"> need a person</span></span>;
}

function Age() {
  const old = stale.value;
  const silent = age.value > STALE_S ? age.value : labAge.value;
  const text = age.value === Infinity ? "connecting" : old ? `stale ${silent.toFixed(0)} s` : `live ${age.value.toFixed(1)} s`;
  const why = age.value > STALE_S ? "the server is silent" : old ? "the server answers, the laboratory behind it is silent" : "age of the last message of the server";
  return (
    <span class={`live num ${old ? "stale" : ""}`} title={why}>
      <i aria-hidden="true" />{text}
    </span>
  );
}

function Asked() {
  const box = useRef<HTMLDialogElement>(null);
  const asked = question.value;
  useLayoutEffect(() => {
    if (asked && !box.current?.open) box.current?.showModal();
    if (asked) box.current?.querySelector<HTMLElement>("[data-first]")?.focus();
    if (!asked && box.current?.open) box.current.close();
  }, [asked]);
  const close = () => (question.value = undefined);
  const confirm = (event: SubmitEvent) => {
    event.preventDefault();
    const reason = String(new FormData(event.target as HTMLFormElement).get("reason") ?? "");
    close();
    if (asked) void command(asked.verb, asked.target ?? "", reason);
  };
  return (
    <dialog ref={box} onClose={() => box.current?.open || close()} aria-labelledby="question">
      <form onSubmit={confirm} key={asked?.title}>
        <h2 id="question">{asked?.title}</h2>
        <p class="soft">{asked?.text}</p>
        {asked?.reasoned && <label class="field">Why<input name="reason" required pattern=".*\S.*" maxLength={300} autocomplete="off" data-first /></label>}
        <div class="row">
          <button type="button" onClick={close}>Cancel</button>
          <button class="danger" data-first={asked?.reasoned ? undefined : ""}>{asked?.act}</button>
        </div>
      </form>
    </dialog>
  );
}
