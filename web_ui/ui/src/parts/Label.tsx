/** Label an episode: first shows which decision depends on it. A label never changes a verdict. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { stale } from "../clock";
import { command } from "../command";
import { mayCommand } from "../session";
import { commands, fleet } from "../socket";
import type { EpisodeLine, CommandKind } from "../types";
import { outcomeWord } from "../words";
import { LastCommand } from "./Commands";
import { useGet } from "./use";
import { useKeys } from "./useKeys";

type Choice = "success" | "failure";
interface Stake { decision: string; would: string; changes: boolean }
const LABEL_COMMANDS = ["judge success", "judge failure", "judge unsafe", "judge undo"];
const LABELLED = ["success", "failure", "unsafe"];

export function LabelBar({ line, again }: { line: EpisodeLine; again: () => void }) {
  const [choice, choose] = useState<Choice | "">("");
  const asked = mayCommand.value && LABELLED.includes(line.outcome) && fleet.value;
  const other = asked && asked.campaign && asked.campaign.id !== line.campaign_id;
  const possible = asked && !other;
  useKeys((event) => {
    if (!possible) return;
    if (event.key === "1") choose("success");
    else if (event.key === "2") choose("failure");
    else if (event.key === "Escape" && !event.shiftKey) choose("");
  });
  const effective = Object.values(commands.value ?? {}).filter((one) => one.target === line.order_id && one.state === "effective").length;
  useEffect(() => void (effective && again()), [effective]);
  if (other) return <p class="faint small">This episode belongs to another campaign than the running one. You can label it when the running campaign has ended.</p>;
  if (!possible) return null;
  const submit = (kind: CommandKind) => {
    choose("");
    void command(kind, line.order_id);
  };
  return (
    <section class="card label-bar" aria-label="Your label">
      <span>Label this episode:</span>
      <button aria-pressed={choice === "success"} onClick={() => choose("success")}>✓ Success <kbd>1</kbd></button>
      <button aria-pressed={choice === "failure"} onClick={() => choose("failure")}>✕ Failure <kbd>2</kbd></button>
      {choice ? <AtStake line={line} choice={choice} submit={submit} /> : <span class="faint small">A label checks the verifier's verdict ({outcomeWord(line.outcome).word.toLowerCase()}). It changes no decision.</span>}
      <LastCommand kinds={LABEL_COMMANDS} target={line.order_id} />
    </section>
  );
}

function AtStake({ line, choice, submit }: { line: EpisodeLine; choice: Choice; submit: (kind: CommandKind) => void }) {
  const { value, problem } = useGet<Stake>(`/episodes/${line.order_id}/stake?outcome=${choice}`);
  const same = choice === line.outcome;
  const act = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => act.current?.focus({ preventScroll: true }), [choice]);
  return (
    <>
      <span class="small" role="status">
        {problem ?? (same ? "The verifier gave the same verdict." : value ? `${value.decision && `${value.decision}. `}${value.would}` : "…")}
        {value?.changes && !same && <b class="changes"> The decision would change. It stays in force until an operator rolls back.</b>}
      </span>
      <button class="primary" ref={act} disabled={stale.value} onClick={() => submit(`judge ${choice}`)}>Label {choice}</button>
    </>
  );
}
