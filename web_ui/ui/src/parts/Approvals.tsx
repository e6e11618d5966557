/** What waits for an approval: experiments and versions in quarantine. */

import { stale } from "../clock";
import { question } from "../command";
import { clock } from "../format";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { Alarm } from "../types";

const QUARANTINE = "quarantine-";
export const isApproval = ({ key }: Alarm): boolean => key.startsWith(QUARANTINE);

/** What holds a subject now, and the event until which the page shows it: an answer ends that and nothing newer. */
function shown(subject: string): { holds: string; seen?: number } {
  const alarm = Object.values(fleet.value?.alarms ?? {}).find((one) => isApproval(one) && one.names[0] === subject);
  return { holds: alarm ? `${alarm.text.replace(/\.$/, "")}. ` : "", seen: fleet.value?.campaign?.newest_event };
}
const LATER = "A tripwire that trips after this moment still holds it.";

/** Ask for the reason with which an operator clears a quarantine, or puts an experiment into it. */
export function askToClear(subject: string) {
  const { holds, seen } = shown(subject);
  question.value = {
    title: "Clear the quarantine?", text: `${holds}When you clear this, its versions may enter gates and be promoted. ${LATER} The ledger keeps your name and the reason.`,
    act: "Clear", kind: "experiment clear", target: subject, reasoned: true, seen,
  };
}
export const askToQuarantine = (subject: string) => (question.value = {
  title: "Put it into quarantine?", text: "It opens no gate and is not promoted until an operator clears it. Its open gate ends without a decision.",
  act: "Quarantine", kind: "experiment quarantine", target: subject, reasoned: true,
});

export function askToApprove(subject: string) {
  const { holds, seen } = shown(subject);
  question.value = {
    title: "Approve?", text: `${holds}An approved experiment trains and gets robot time; an approved candidate enters its gate, which decides about its promotion. ${LATER} The ledger keeps your name and the reason.`,
    act: "Approve", kind: "experiment clear", target: subject, reasoned: true, seen,
  };
}
export const askToReject = (subject: string) => (question.value = {
  title: "Reject?", text: "It enters no gate, and its experiment ends. The ledger keeps your name and the reason.",
  act: "Reject", kind: "experiment quarantine", target: subject, reasoned: true,
});

/** `until`: how long an answer counts. */
export function Approvals({ waiting, campaign, until }: { waiting: Alarm[]; campaign: string; until: string }) {
  if (!waiting.length) return null;
  return (
    <section class="card" aria-label="Approvals">
      <header><h2>Approvals <span class="faint">{waiting.length}</span></h2><span class="soft small push">{until}</span></header>
      <ul class="inbox">
        {waiting.map(({ key, text, names, since_ms, responses, default: otherwise }) => (
          <li class="warn" data-approval={names[0]} key={key}>
            <div>
              <b><span aria-hidden="true">☝ </span>{text}</b>
              <p class="small"><a class="mono" href={`/campaigns/${campaign}`} title="Experiment or version; the page of its campaign has the evidence">{names[0]!.slice(0, 26)}</a><span class="soft num"> · since {clock(since_ms)}</span></p>
              <p class="soft small">Without an answer: {otherwise}.</p>
            </div>
            <span class="acts">{mayCommand.value && (responses.includes("experiment quarantine") ? <>
              <button class="primary" disabled={stale.value} onClick={() => askToApprove(names[0]!)}>✓ Approve</button>
              <button disabled={stale.value} onClick={() => askToReject(names[0]!)}>✕ Reject</button>
            </> : <button disabled={stale.value} onClick={() => askToClear(names[0]!)}>✓ Clear</button>)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
