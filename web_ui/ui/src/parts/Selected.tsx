/** What can be done with the chosen episodes: compare two, or label all of them alike. */

import { useState } from "preact/hooks";
import { postForFile } from "../api";
import { stale } from "../clock";
import { command } from "../command";
import { isExample, mayCommand } from "../session";
import { fleet } from "../socket";
import { sentence } from "./use";
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
      {!isExample.value && <Export rows={rows} />}
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
          The verdict of the verifier differs in {differing} of {fit.length}. A label changes no verdict and no decision; a newer label replaces an older one.{" "}
          <button class="primary" onClick={submit}>Label {fit.length} {outcomeWord(asked).word.toLowerCase()}</button>
        </span>
      )}
    </section>
  );
}

/** Most episodes of one export; `enpire episodes export` has no limit. */
const MOST = 200;

/** Form of an export -> how the page calls it. */
const FORMS = { lerobot: "LeRobot dataset", rrd: "Rerun recordings", mcap: "MCAP files (Foxglove)" } as const;

/** The recordings of the chosen episodes as one zip file. */
function Export({ rows }: { rows: EpisodeLine[] }) {
  const [state, put] = useState("");
  const [form, choose] = useState<keyof typeof FORMS>("lerobot");
  const save = async () => {
    put("Writing…");
    try {
      const file = URL.createObjectURL(await postForFile("/episodes/export", { episodes: rows.map((one) => one.order_id), form }));
      const link = document.createElement("a");
      link.href = file;
      link.download = `episodes-${form}.zip`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(file), 60_000);
      put("");
    } catch (error) {
      put(sentence(error));
    }
  };
  return (
    <>
      <span class="beside">
        <select aria-label="Format of the export" value={form} onChange={(event) => choose(event.currentTarget.value as keyof typeof FORMS)}>
          {Object.entries(FORMS).map(([name, word]) => <option key={name} value={name}>{word}</option>)}
        </select>
        <button disabled={state === "Writing…" || rows.length > MOST} onClick={() => void save()} title={`States, actions, critics and verdicts of the chosen episodes on train starts, at most ${MOST}; with images: enpire episodes export --cameras`}>↓ Export</button>
      </span>
      {state && <span class="small" role="status">{state}</span>}
    </>
  );
}
