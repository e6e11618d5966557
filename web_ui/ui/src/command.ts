/** Hand in a command, once, whatever is clicked how often. */

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

/** `target`: a station (empty: every one), a policy version or an episode. */
export async function command(verb: Verb, target: string, reason = ""): Promise<void> {
  const same = `${verb} ${target}`;
  if (underway.has(same)) return;
  underway.add(same);
  const key = freshKey();
  try {
    await insist({ verb, target, reason }, key);
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
    text: `${who}, until somebody resumes. Running episodes end as aborted.`,
    act: "■ Stop fleet",
    verb: "stop",
  };
}

/** A stop that met a dead line is tried again with the same key: it stays one command. */
async function insist(wish: { verb: Verb; target: string; reason: string }, key: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await post<Command>("/commands", wish, { "Idempotency-Key": key });
      return;
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status !== 0 || wish.verb !== "stop" || attempt >= 4) throw problem;
      await new Promise((done) => setTimeout(done, 300 * 2 ** attempt));
    }
  }
}
