/** Hand in a command, once, whatever is clicked how often; a stop goes out at every click. */

import { signal } from "@preact/signals";
import { freshKey, post, Problem } from "./api";
import type { Command, Verb } from "./types";

/** The sentence of the last refusal; empty when the last command was taken. */
export const refusal = signal("");
export interface Question {
  title: string; text: string; act: string; verb: Verb; target?: string;
  /** Ask why; the answer goes into the ledger. */
  reasoned?: boolean;
}
/** What is asked before a command that is hard to take back; undefined when nothing is. */
export const question = signal<Question | undefined>(undefined);
const underway = new Set<string>();
/** The key of the last stop of each target, and performance.now() of its click. */
const stops = new Map<string, { key: string; at: number }>();
const DOUBLE_CLICK_MS = 500;
const PATIENCE_MS = 2000;

/** `target`: a station (empty: every one), a policy version or an episode. */
export async function command(verb: Verb, target: string, reason = ""): Promise<void> {
  const same = `${verb} ${target}`;
  if (verb !== "stop" && underway.has(same)) return;
  if (verb === "resume") stops.clear(); // what is stopped after a resume is a new stop, however soon
  underway.add(same);
  try {
    await insist({ verb, target, reason }, verb === "stop" ? stopKey(target) : freshKey());
    refusal.value = "";
  } catch (problem) {
    refusal.value = problem instanceof Problem ? problem.message : String(problem);
  } finally {
    underway.delete(same);
  }
}

/** The one question before every robot is stopped. */
export function askToStop(stations: number): void {
  const who = stations ? `${stations} station${stations > 1 ? "s hold" : " holds"} still at once` : "Every station holds still at once";
  question.value = {
    title: "Stop every robot now?",
    text: `${who}, until somebody resumes. Running episodes end as aborted; those of a gate or another measure count as failures.`,
    act: "■ Stop fleet",
    verb: "stop",
  };
}

/** The two clicks of a double click are one stop; a later click, or one after a resume, is a new one. */
function stopKey(target: string): string {
  const last = stops.get(target), at = performance.now();
  if (last && at - last.at < DOUBLE_CLICK_MS) return last.key;
  const key = freshKey();
  stops.set(target, { key, at });
  return key;
}

/** A stop that met a dead line is tried again with the same key: it stays one command. The page says so meanwhile. */
async function insist(wish: { verb: Verb; target: string; reason: string }, key: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await post<Command>("/commands", wish, { headers: { "Idempotency-Key": key }, patience_ms: PATIENCE_MS });
      return;
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status !== 0 || wish.verb !== "stop") throw problem;
      const which = `${problem.message} The stop of ${wish.target || "every robot"}`;
      if (attempt >= 4) throw new Problem(0, `${which} did not arrive: use the emergency stop at the robot.`);
      refusal.value = `${which} has not arrived and is sent again.`;
      await new Promise((done) => setTimeout(done, 300 * 2 ** attempt));
    }
  }
}
