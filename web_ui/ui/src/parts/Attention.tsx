/** What needs an operator, grouped by cause, each group with its commands. The inbox shows the same alarms. */

import { stale } from "../clock";
import { command } from "../command";
import { mayCommand } from "../session";
import type { Alarm, CommandKind, FleetDocument } from "../types";
import { commandWord } from "../words";
import { isApproval } from "./Approvals";

/** Alarms by urgency: not acknowledged first, then faults, then the oldest. */
export function alarmsOf({ alarms }: FleetDocument): Alarm[] {
  const rank = (one: Alarm) => (one.acknowledged_by ? 2 : 0) + (one.tone === "bad" ? 0 : 1);
  return Object.values(alarms ?? {}).sort((a, b) => rank(a) - rank(b) || a.since_ms - b.since_ms);
}

/** Targets of a response; a command to the campaign has no target. */
const targets = (kind: CommandKind, names: string[]) => (kind.endsWith("campaign") ? [""] : names);
const MARKS: Partial<Record<CommandKind, string>> = { stop: "■ ", resume: "▶ ", "service done": "✓ ", pause: "‖ ", "continue campaign": "▶ " };

/** The buttons that answer an alarm. A stop is allowed to every signed-in user, and also while data is stale. */
export function Responses({ alarm }: { alarm: Alarm }) {
  return (
    <>
      {alarm.responses.filter((kind) => kind === "stop" || mayCommand.value).map((kind) => (
        <button key={kind} disabled={stale.value && kind !== "stop"} onClick={() => targets(kind, alarm.names).forEach((target) => void command(kind, target))}>
          <span aria-hidden="true">{MARKS[kind]}</span>{commandWord(kind)}{alarm.names.length > 1 ? ` ${alarm.names.length}` : ""}
        </button>
      ))}
    </>
  );
}

export function Attention({ now }: { now: FleetDocument }) {
  const all = alarmsOf(now), open = all.filter((one) => !one.acknowledged_by);
  if (stale.value) return null; // the notice of the page says so
  if (!all.length) return !Object.keys(now.stations).length ? null : <span class="calm-line"><span aria-hidden="true">✓</span> Nothing needs attention.</span>;
  const seen = all.length - open.length;
  return (
    <section class="attention" aria-label="Needs attention">
      {open.map((alarm) => (
        <div class={alarm.tone} key={alarm.key}>
          <span><span aria-hidden="true">⚠ </span>{alarm.text}</span>
          <span class="small">{alarm.names.slice(0, 12).join(", ")}{alarm.names.length > 12 && ` and ${alarm.names.length - 12} more`}</span>
          <span class="push">{isApproval(alarm) ? <a href="/inbox">Answer</a> : <Responses alarm={alarm} />}</span>
        </div>
      ))}
      <a class="small" href="/inbox">{seen ? `${seen} acknowledged alarm${seen > 1 ? "s" : ""} in the inbox` : "Open the inbox"}</a>
    </section>
  );
}
