/** The inbox: what an operator must answer, who has seen it, and how the page reports it. */

import { now as tick, since, stale } from "../clock";
import { command } from "../command";
import { clock, seconds } from "../format";
import { alarmsOf, Responses } from "../parts/Attention";
import { Approvals, isApproval } from "../parts/Approvals";
import { AuthoredTasks } from "../parts/AuthoredTasks";
import { CommandList } from "../parts/Commands";
import { Empty, Live } from "../parts/Pieces";
import { useGet } from "../parts/use";
import { mayCommand } from "../session";
import { notifying, toggleNotifying } from "../notify";
import { fleet } from "../socket";
import type { Alarm, FleetDocument, WebhookState } from "../types";

/** Names that a card lists before "and N more". */
const NAMED = 24;
const POLL_MS = 3000;

export function InboxPage() {
  const now = fleet.value;
  if (!now) return <main class="narrow"><Empty title="Loading…" /></main>;
  const all = alarmsOf(now), alarms = all.filter((one) => !isApproval(one));
  return (
    <main class="narrow">
      <div class="head">
        <h1>Inbox</h1>
        <span class="push acts">
          {"Notification" in window && (
            <button class="quiet" aria-pressed={notifying.value} onClick={() => void toggleNotifying()} title="A message of the browser, with an image of the station, when an alarm lasts 5 s while a tab of this page is open">
              {notifying.value ? "✓ Browser notifications" : "Notify me in this browser"}
            </button>
          )}
        </span>
      </div>
      <Live old={stale.value}>
        <Approvals waiting={all.filter(isApproval)} campaign={now.campaign?.id ?? ""} until={untilText(now)} />
        <AuthoredTasks />
        <section class="card" aria-label="Alarms">
          <header><h2>Alarms <span class="faint">{alarms.length || ""}</span></h2><span class="soft small push">{untilText(now)}</span></header>
          {alarms.length ? <ul class="inbox">{alarms.map((one) => <AlarmCard key={one.key} alarm={one} />)}</ul> : <Empty title={now.connected ? "No alarm" : "No campaign runs in this home, so there are no alarms"} />}
        </section>
        <WebhookLine />
        <CommandList />
      </Live>
    </main>
  );
}

/** Until when an answer counts: a campaign ends with its wall-clock budget. */
function untilText({ campaign }: FleetDocument): string {
  if (!campaign?.wall_budget_s) return "an answer counts until the campaign ends";
  return `an answer counts until the campaign ends, in at most ${seconds(Math.max(0, campaign.wall_budget_s - campaign.elapsed_s))}`;
}

function AlarmCard({ alarm }: { alarm: Alarm }) {
  const { names } = alarm, seen = alarm.acknowledged_by;
  const stations = alarm.key !== "campaign";
  return (
    <li class={`${alarm.tone} ${seen ? "seen" : ""}`} data-alarm={alarm.key}>
      <div>
        <b><span aria-hidden="true">⚠ </span>{alarm.text}</b>
        <p class="small">
          {names.slice(0, NAMED).map((name, index) => <>{index > 0 && ", "}{stations ? <a href={`/stations/${encodeURIComponent(name)}`}>{name}</a> : name}</>)}
          {names.length > NAMED && ` and ${names.length - NAMED} more`}
          <span class="soft num"> · since {clock(alarm.since_ms)} ({seconds(since(alarm.since_ms))})</span>
        </p>
        {alarm.default && <p class="soft small">Without an answer: {alarm.default}.</p>}
      </div>
      <span class="acts">
        {seen ? <span class="soft small">✓ acknowledged by {seen}{alarm.acknowledged_ms ? ` at ${clock(alarm.acknowledged_ms)}` : ""}</span> : mayCommand.value && (
          <button disabled={stale.value} onClick={() => void command("acknowledge", alarm.key, `${alarm.text} (${names.slice(0, 5).join(", ")}${names.length > 5 ? ", …" : ""})`.slice(0, 300))} title="I have seen it. No further message is sent for it; it stays here until its cause ends.">✓ Acknowledge</button>
        )}
        <Responses alarm={alarm} />
      </span>
    </li>
  );
}

/** Whether alarms also go to a chat. Admins set its address in Settings. */
function WebhookLine() {
  const { value } = useGet<WebhookState>("/webhook", Math.floor(tick.value / POLL_MS));
  if (!value) return null;
  const text = !value.configured ? "No webhook is set: alarms reach only open pages." : value.problem ? `Webhook: ${value.problem}` : value.sent ? `Webhook: ${value.sent} message${value.sent > 1 ? "s" : ""} sent, the last at ${clock(value.last_ms ?? 0)}.` : "Webhook: set, no message sent yet.";
  return <p class={`small ${value.problem ? "problem" : "soft"}`}>{text} <a href="/settings#webhook">Settings</a></p>;
}
