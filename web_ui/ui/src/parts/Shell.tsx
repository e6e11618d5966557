/** The frame of every page: navigation, age of the data, Stop fleet, the signed-in user. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { age, labAge, silent, stale } from "../clock";
import { askToStop, confirmed, question, refusal } from "../command";
import { path } from "../router";
import { titleOf, useTitle } from "./title";
import { alarmsOf } from "./Attention";
import { answerable } from "./AuthoredTasks";
import { Hints } from "./Hint";
import { Keys, listed } from "./Keys";
import { isExample, signedIn, signOut } from "../session";
import { fleet, lastMessage } from "../socket";
import { nextTheme, theme } from "../theme";
import { sentence } from "./use";

const PAGES = [
  ["/", "Fleet"],
  ["/inbox", "Inbox"],
  ["/campaigns", "Campaigns"],
  ["/episodes", "Episodes"],
  ["/policies", "Policies"],
  ["/settings", "Settings"],
] as const;
const NOT_IN_EXAMPLE = new Set<string>(["Inbox", "Settings"]);
const THEMES = { system: ["◐", "System"], light: ["☀", "Light"], dark: ["☾", "Dark"] } as const;

/** A session that the server did not end is still valid, and the page says so. */
const leaveSession = () => signOut().catch((error: unknown) => (refusal.value = `You are still signed in. ${sentence(error)}`));

const stop = () => askToStop(Object.keys(fleet.value?.stations ?? {}).length);

export function Shell({ children }: { children: ComponentChildren }) {
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && event.shiftKey && !isExample.value) {
        event.preventDefault();
        stop();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  useTitle(titleOf(path.value, stale.value, needed().length));
  const here = (address: string) => (address === "/" ? path.value === "/" || path.value.startsWith("/stations/") : path.value.startsWith(address));
  return (
    <>
      <a class="skip" href="#content">Skip to the content</a>
      <header class="bar">
        <a class="brand" href="/" aria-label="ENPIRE"><img src="/icon.svg" alt="" /><span>ENPIRE</span></a>
        <nav class="tabs" aria-label="Pages">
          {PAGES.filter(([, name]) => !isExample.value || !NOT_IN_EXAMPLE.has(name)).map(([address, name]) => (
            <a href={address} aria-current={here(address) ? "page" : undefined}>{name}{address === "/inbox" && <Waiting />}</a>
          ))}
        </nav>
        {!isExample.value && <Age />}
        {!isExample.value && (
          <button class="danger" onClick={stop} title="Stop all robots (Shift+Esc)">
            <span aria-hidden="true">■</span> Stop fleet <kbd class="roomy">⇧ Esc</kbd>
          </button>
        )}
        <span class="who">
          <span class="roomy">{signedIn.value?.name} · {signedIn.value?.role}</span>
          <button class="quiet" onClick={() => (listed.value = true)} title="Keys, and what the numbers of this page mean (?)" aria-label="Help">?</button>
          <button class="quiet" onClick={nextTheme} title="Colours: light, dark, or the setting of the system" aria-label={`Colours: ${THEMES[theme.value][1]}`}>
            <span aria-hidden="true">{THEMES[theme.value][0]}</span> <span class="roomy">{THEMES[theme.value][1]}</span>
          </button>
          {!isExample.value && <button class="quiet" onClick={() => void leaveSession()} title={`Sign out ${signedIn.value?.name} (${signedIn.value?.role}) in this browser. Robots and campaign keep running.`}>Sign out</button>}
        </span>
      </header>
      <div class="notices">
        {isExample.value && <p class="notice example"><b>Example.</b> A recorded campaign with simulated robots, read-only. <a href="/episodes?interventions=without&view=grid">Watch its recorded episodes</a>; of the others it keeps the results. <code>enpire demo</code> runs a campaign on this machine.</p>}
        <div aria-live="assertive"><Old /></div>
        {refusal.value && (
          <div class="notice" role="alert">
            {refusal.value} <button class="quiet" onClick={() => (refusal.value = "")}>Dismiss</button>
          </div>
        )}
      </div>
      <div id="content">{children}</div>
      <Asked />
      <Keys />
      <Hints />
    </>
  );
}

/** What the inbox has for this user: alarms and approvals that no operator has acknowledged, and tasks to decide about. */
function needed(): string[] {
  const open = fleet.value && !stale.value ? alarmsOf(fleet.value).filter((one) => !one.acknowledged_by) : [];
  const said = open.map((one) => `${one.text} (${one.names.slice(0, 5).join(", ")})`);
  return silent.value ? said : [...said, ...answerable.value.map((task) => `The task ${task.id} of an agent waits for an approval`)];
}

/** How many things in the inbox need a person. */
function Waiting() {
  const found = needed();
  if (!found.length) return null;
  return <span class="badge" title={`Need an operator: ${found.join("; ")}`}><span aria-hidden="true">⚠ </span>{found.length}<span class="visually-hidden"> need an operator</span></span>;
}

/** The notice on every page while the server or the lab is silent. */
function Old() {
  if (silent.value) {
    return <div class="notice">⚠ No connection to the server. The data on this page may be outdated. Stop still works: the page sends it up to five times and reports whether it arrived. Other commands are disabled.</div>;
  }
  if (!stale.value) return null;
  return <div class="notice">⚠ No data from the lab. Its data on this page may be outdated. Stop is still sent to the lab. Other commands are disabled.</div>;
}

function Age() {
  const old = stale.value;
  const since = silent.value ? age.value : labAge.value;
  const text = old ? `stale ${since.toFixed(0)} s` : lastMessage.value ? `live ${age.value.toFixed(1)} s` : "connecting";
  const why = silent.value ? "no message from the server" : old ? "the server answers, but the lab sends no data" : "age of the last message from the server";
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
    if (asked) void confirmed(asked, reason);
  };
  return (
    <dialog ref={box} onClose={() => box.current?.open || close()} aria-labelledby="question">
      <form onSubmit={confirm} key={asked?.title}>
        <h2 id="question">{asked?.title}</h2>
        <p class="soft">{asked?.text}</p>
        {asked?.reasoned && <label class="field">Reason<input name="reason" required pattern=".*\S.*" maxLength={300} autocomplete="off" data-first /></label>}
        <div class="row">
          <button type="button" onClick={close}>Cancel</button>
          <button class="danger" data-first={asked?.reasoned ? undefined : ""}>{asked?.act}</button>
        </div>
      </form>
    </dialog>
  );
}
