/** Change the goal and the budget of the running campaign. The ledger and the report record it. */

import { useEffect, useRef } from "preact/hooks";
import { command } from "../command";
import type { CampaignView } from "../types";

interface Limit { key: string; label: string; value: number; factor: number; least: number; most?: number; step: number | "any" }

const limitsOf = (of: CampaignView): Limit[] => [
  { key: "goal.success", label: "Goal: confirmed success, %", value: of.goal.success, factor: 100, least: 0.1, most: 100, step: "any" },
  { key: "goal.commands", label: "Goal: median commands of a success, 0: no limit", value: of.goal.commands, factor: 1, least: 0, step: 1 },
  { key: "budget.wall_s", label: "Wall-clock time, minutes, 0: no limit", value: of.budget?.wall_s ?? 0, factor: 1 / 60, least: 0, step: "any" },
  { key: "budget.rounds", label: "Rounds", value: of.budget?.rounds ?? 0, factor: 1, least: 0, step: 1 },
  { key: "budget.robot_s", label: "Robot time, robot-hours, 0: no limit", value: of.budget?.robot_s ?? 0, factor: 1 / 3600, least: 0, step: "any" },
];

export function LimitsDialog({ of, close }: { of: CampaignView; close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const limits = useRef(limitsOf(of)).current; // the values as the dialog was opened
  useEffect(() => box.current?.showModal(), []);
  const save = (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement);
    const changed = limits.flatMap(({ key, value, factor }) => {
      const shown = String(given.get(key) ?? "");
      return shown === text(value, factor) ? [] : [`${key}=${+(Number(shown) / factor).toPrecision(12)}`];
    });
    if (changed.length) void command("change limits", changed.join(" "), String(given.get("reason") ?? "").trim());
    close();
  };
  return (
    <dialog ref={box} onClose={close} aria-labelledby="limits">
      <form onSubmit={save}>
        <h2 id="limits">Goal and budget</h2>
        <p class="soft">The campaign keeps its rounds, versions and gates. A confirmation that runs keeps its goal.</p>
        {limits.map(({ key, label, value, factor, least, most, step }) => (
          <label class="field" key={key}>{label}<input name={key} type="number" required min={least} max={most} step={step} defaultValue={text(value, factor)} /></label>
        ))}
        <label class="field">Reason<input name="reason" maxLength={300} autocomplete="off" /></label>
        <div class="row">
          <button type="button" onClick={close}>Cancel</button>
          <button class="primary">Change</button>
        </div>
      </form>
    </dialog>
  );
}

const text = (value: number, factor: number): string => String(+(value * factor).toPrecision(6));
