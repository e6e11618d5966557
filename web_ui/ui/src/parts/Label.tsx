/** What a person says about an episode: first what hangs on it, then the label. A label never changes a verdict. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { stale } from "../clock";
import { command } from "../command";
import { mayCommand } from "../session";
import { commands, fleet } from "../socket";
import type { EpisodeLine, Verb } from "../types";
import { outcomeWord } from "../words";
import { LastCommand } from "./Commands";
import { useGet } from "./use";
import { useKeys } from "./useKeys";

type Said = "success" | "failure";
interface Stake { decision: string; would: string; changes: boolean }
const VERBS = ["judge success", "judge failure", "judge unsafe"];
const JUDGED = ["success", "failure", "unsafe"];

export function LabelBar({ line, again }: { line: EpisodeLine; again: () => void }) {
  const [said, say] = useState<Said | "">("");
  const asked = mayCommand.value && JUDGED.includes(line.outcome) && fleet.value;
  const other = asked && asked.campaign && asked.campaign.id !== line.campaign_id;
  const possible = asked && !other;
  useKeys((event) => {
    if (!possible) return;
    if (event.key === "1") say("success");
    else if (event.key === "2") say("failure");
    else if (event.key === "Escape" && !event.shiftKey) say("");
  });
  const effective = Object.values(commands.value ?? {}).filter((one) => one.target === line.order_id && one.state === "effective").length;
  useEffect(() => void (effective && again()), [effective]);
  if (other) return <p class="faint small">Its campaign is over and another one runs: say what it was when that has ended.</p>;
  if (!possible) return null;
  const hand = (verb: Verb) => {
    say("");
    void command(verb, line.order_id);
  };
  return (
    <section class="card label-bar" aria-label="Your verdict">
      <span>What do you see?</span>
      <button aria-pressed={said === "success"} onClick={() => say("success")}>✓ Success <kbd>1</kbd></button>
      <button aria-pressed={said === "failure"} onClick={() => say("failure")}>✕ Failure <kbd>2</kbd></button>
      {said ? <AtStake line={line} said={said} hand={hand} /> : <span class="faint small">Your label stands beside the verifier's verdict ({outcomeWord(line.outcome).word.toLowerCase()}) and checks it; no decision is changed.</span>}
      <LastCommand verbs={VERBS} target={line.order_id} />
    </section>
  );
}

function AtStake({ line, said, hand }: { line: EpisodeLine; said: Said; hand: (verb: Verb) => void }) {
  const { value, problem } = useGet<Stake>(`/episodes/${line.order_id}/stake?outcome=${said}`);
  const same = said === line.outcome;
  const act = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => act.current?.focus({ preventScroll: true }), [said]);
  return (
    <>
      <span class="small" role="status">
        {problem ?? (same ? "The verifier says the same." : value ? `${value.decision && `${value.decision}. `}${value.would}` : "…")}
        {value?.changes && !same && <b class="changes"> The decision would be another one; it stands until somebody rolls back.</b>}
      </span>
      <button class="primary" ref={act} disabled={stale.value} onClick={() => hand(`judge ${said}`)}>Say {said}</button>
    </>
  );
}
