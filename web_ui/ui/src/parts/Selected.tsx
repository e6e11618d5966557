/** What can be done with the chosen episodes: compare two, or label all of them alike. */

import { useState } from "preact/hooks";
import { stale } from "../clock";
import { command } from "../command";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { EpisodeLine } from "../types";
import { outcomeWord } from "../words";

interface SelectedProps { rows: EpisodeLine[]; shown: number; clear: () => void; all: () => void }
const WITH_VERDICT = ["success", "failure", "unsafe"];

export function Selected({ rows, shown, clear, all }: SelectedProps) {
  const [asked, ask] = useState<"success" | "failure" | "">("");
  if (!rows.length) return null;
  const running = fleet.value?.campaign?.id;
  const fit = rows.filter((one) => WITH_VERDICT.includes(one.outcome) && one.campaign_id === running);
  const submit = () => {
    for (const row of fit) void command(`judge ${asked as "success" | "failure"}`, row.order_id);
    ask("");
    clear();
  };
  const differing = fit.filter((one) => one.outcome !== asked).length;
  return (
    <section class="card label-bar" aria-label="Chosen episodes">
      <b class="num">{rows.length} chosen</b>
      {rows.length < shown && <button onClick={all}>Choose all {shown} shown</button>}
      <button class="quiet" onClick={clear}>Clear</button>
      {rows.length === 2 && <a href={`/compare?a=${rows[1]!.order_id}&b=${rows[0]!.order_id}`}>Compare the two</a>}
      {mayCommand.value && fit.length > 0 && (
        <>
          <button disabled={stale.value} onClick={() => ask("success")}>✓ Label {fit.length} success</button>
          <button disabled={stale.value} onClick={() => ask("failure")}>✕ Label {fit.length} failure</button>
        </>
      )}
      {mayCommand.value && fit.length < rows.length && <span class="faint small">{rows.length - fit.length} cannot be labelled: without a verdict, or of another campaign than the running one.</span>}
      {asked && (
        <span role="status">
          The verifier said otherwise in {differing} of {fit.length}. A label changes no verdict and no decision; a newer label replaces an older one.{" "}
          <button class="primary" onClick={submit}>Label {fit.length} {outcomeWord(asked).word.toLowerCase()}</button>
        </span>
      )}
    </section>
  );
}
