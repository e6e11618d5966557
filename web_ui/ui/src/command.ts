/** Send a command once, however often a button is clicked; every click of Stop sends a stop. */

import { signal } from "@preact/signals";
import { freshKey, post, Problem } from "./api";
import { fleet } from "./socket";
import type { Command, CommandKind } from "./types";

/** Why the last command was refused; empty when it was accepted. */
export const refusal = signal("");
interface Asked {
  title: string; text: string; act: string;
  /** Ask for a reason, which the record keeps. */
  reasoned?: boolean;
}
interface AskedCommand extends Asked {
  kind: CommandKind; target?: string;
  /** Number of the newest event that the operator saw when the question opened; default: the newest when it is answered. */
  seen?: number;
}
/** What is no command of a campaign. */
interface AskedRequest extends Asked { run: (reason: string) => Promise<unknown> }
export type Question = AskedCommand | AskedRequest;
/** The open confirmation dialog; undefined when there is none. */
export const question = signal<Question | undefined>(undefined);
const underway = new Set<string>();
/** The key of the last stop of each target, and performance.now() of its click. */
const stops = new Map<string, { key: string; at: number }>();
const DOUBLE_CLICK_MS = 500;
const TIMEOUT_MS = 2000;

/** `target`: a station (empty: every one), a policy version or an episode. */
export async function command(kind: CommandKind, target: string, reason = "", saw?: number): Promise<void> {
  const same = `${kind} ${target}`;
  const seen = saw ?? fleet.value?.campaign?.newest_event; // it ends no stop or quarantine that this page does not show yet
  if (kind !== "stop" && underway.has(same)) return;
  if (kind === "resume") stops.clear(); // a stop after a resume is a new stop, however soon
  underway.add(same);
  try {
    await send({ verb: kind, target, reason, seen }, kind === "stop" ? stopKey(target) : freshKey());
    refusal.value = "";
  } catch (problem) {
    refusal.value = problem instanceof Problem ? problem.message : String(problem);
  } finally {
    underway.delete(same);
  }
}

/** Do what a question asked about. */
export async function confirmed(asked: Question, reason: string): Promise<void> {
  if (!("run" in asked)) return command(asked.kind, asked.target ?? "", reason, asked.seen);
  try {
    await asked.run(reason);
    refusal.value = "";
  } catch (problem) {
    refusal.value = problem instanceof Problem ? problem.message : String(problem);
  }
}

/** Ask before all robots are stopped. */
export function askToStop(stations: number): void {
  const who = stations === 1 ? "The station stops" : stations ? `All ${stations} stations stop` : "All stations stop";
  question.value = {
    title: "Stop all robots now?",
    text: `${who} at once and stay stopped until an operator resumes them. Running episodes end as aborted. Aborted trials of a gate, of the base measurement or of a confirmation count as failures.`,
    act: "■ Stop fleet",
    kind: "stop",
  };
}

/** A double click is one stop; a later click, or a click after a resume, is a new one. */
function stopKey(target: string): string {
  const last = stops.get(target), at = performance.now();
  if (last && at - last.at < DOUBLE_CLICK_MS) return last.key;
  const key = freshKey();
  stops.set(target, { key, at });
  return key;
}

/** Send a command. A stop without an answer is sent again with the same key, so it stays one command. */
async function send(request: { verb: CommandKind; target: string; reason: string; seen?: number }, key: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await post<Command>("/commands", request, { headers: { "Idempotency-Key": key }, timeout_ms: TIMEOUT_MS });
      return;
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status !== 0 || request.verb !== "stop") throw problem;
      const which = `${problem.message} The stop of ${request.target || "all robots"}`;
      if (attempt >= 4) throw new Problem(0, `${which} did not arrive. Use the emergency stop at the robot.`);
      refusal.value = `${which} has not arrived yet and is sent again.`;
      await new Promise((done) => setTimeout(done, 300 * 2 ** attempt));
    }
  }
}
