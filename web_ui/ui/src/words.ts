/** One icon, word and colour for each phase, outcome and decision. */

import type { Station } from "./types";

export type Tone = "ok" | "warn" | "bad" | "busy" | "calm";
export interface Word { icon: string; word: string; tone: Tone }

const PHASES: Record<string, Word> = {
  rollout: { icon: "▶", word: "Rollout", tone: "ok" },
  reset: { icon: "↺", word: "Reset", tone: "busy" },
  verify: { icon: "◎", word: "Verify", tone: "busy" },
  "wait-policy": { icon: "…", word: "Waiting for the policy", tone: "warn" },
  "wait-verdict": { icon: "…", word: "Waiting for the verdict", tone: "busy" },
  "wait-order": { icon: "…", word: "Waiting for orders", tone: "calm" },
  "wait-person": { icon: "☝", word: "Waiting for an operator", tone: "warn" },
  fault: { icon: "⚠", word: "Fault", tone: "bad" },
  stopped: { icon: "■", word: "Stopped", tone: "bad" },
  offline: { icon: "⊘", word: "Offline", tone: "bad" },
};

const OUTCOMES: Record<string, Word> = {
  success: { icon: "✓", word: "Success", tone: "ok" },
  failure: { icon: "✕", word: "Failure", tone: "bad" },
  unsafe: { icon: "⚠", word: "Unsafe", tone: "bad" },
  aborted: { icon: "■", word: "Aborted", tone: "warn" },
  invalid: { icon: "⊘", word: "Invalid", tone: "warn" },
  unknown: { icon: "?", word: "Unknown", tone: "warn" },
  released: { icon: "↩", word: "Released", tone: "calm" },
  open: { icon: "…", word: "Open", tone: "calm" },
};

const DECISIONS: Record<string, Word> = {
  promote: { icon: "↑", word: "Promoted", tone: "ok" },
  reject: { icon: "✕", word: "Rejected", tone: "bad" },
  hold: { icon: "=", word: "Held", tone: "warn" },
  open: { icon: "…", word: "Deciding", tone: "busy" },
  dropped: { icon: "⊘", word: "Dropped", tone: "calm" },
};

/** Reasons of a gate whose recorded spelling is not the shown one. */
const REASONS: Record<string, string> = { hopeless: "futility", spent: "pairs exhausted" };
export const reasonWord = (reason: string): string => REASONS[reason] ?? reason;

/** The state of an idea: the decision on its experiment, or its phase. */
const IDEAS: Record<string, Word> = {
  keep: { icon: "↑", word: "Kept", tone: "ok" },
  revert: { icon: "✕", word: "Reverted", tone: "bad" },
  inconclusive: { icon: "=", word: "Inconclusive", tone: "warn" },
  proposed: { icon: "•", word: "Proposed", tone: "calm" },
  checked: { icon: "•", word: "Checked", tone: "calm" },
  queued: { icon: "…", word: "Queued", tone: "calm" },
  training: { icon: "▶", word: "Training", tone: "busy" },
  ready: { icon: "…", word: "Waits for the rounds", tone: "calm" },
  search: { icon: "▶", word: "Searching", tone: "busy" },
  gate: { icon: "◎", word: "In the gate", tone: "busy" },
  invalid: { icon: "⊘", word: "Invalid", tone: "warn" },
  cancelled: { icon: "⊘", word: "Cancelled", tone: "calm" },
  rejected: { icon: "✕", word: "Rejected", tone: "bad" },
};

const STATES: Record<string, Word> = {
  running: { icon: "▶", word: "Running", tone: "ok" },
  paused: { icon: "‖", word: "Paused", tone: "warn" },
  reached: { icon: "✓", word: "Goal reached", tone: "ok" },
  ended: { icon: "■", word: "Ended, goal not reached", tone: "warn" },
  interrupted: { icon: "⊘", word: "Interrupted", tone: "bad" },
};

const LETTERS: Record<string, string> = {
  s: "success", f: "failure", u: "unsafe", a: "aborted", i: "invalid", "?": "unknown",
};

const other = (name: string): Word => ({ icon: "•", word: name, tone: "calm" });
export const phaseWord = (name: string): Word => PHASES[name] ?? other(name);
const SERVICE: Word = { icon: "⚒", word: "Needs service", tone: "warn" };
/** The phase of a station; one that is paused or needs service, and waits, is shown so. */
export const stationWord = ({ phase, paused, service_by }: Station): Word =>
  !phase.startsWith("wait-") ? phaseWord(phase) : service_by ? SERVICE : paused ? STATES["paused"]! : phaseWord(phase);
export const outcomeWord = (name: string): Word => OUTCOMES[name] ?? other(name);
export const decisionWord = (name: string): Word => DECISIONS[name] ?? other(name);
export const ideaWord = (name: string): Word => IDEAS[name] ?? other(name);
export const stateWord = (name: string): Word => STATES[name] ?? other(name);
export const letterWord = (letter: string): Word => outcomeWord(LETTERS[letter] ?? letter);

/** Commands as shown; the API calls them as on the left. */
const COMMANDS: Record<string, string> = {
  pause: "Pause", resume: "Resume", stop: "Stop", service: "Needs service", "service done": "Service done", reset: "Reset", home: "Home", "pause campaign": "Pause campaign", "continue campaign": "Resume campaign",
  "end campaign": "End campaign", "change limits": "Change limits", rollback: "Roll back", promote: "Promote",
  "judge success": "Label success", "judge failure": "Label failure", "judge unsafe": "Label unsafe",
  "experiment quarantine": "Quarantine experiment", "experiment clear": "Clear experiment",
  "experiment rerun": "Rerun experiment", "hypothesis propose": "Propose hypothesis", "hypothesis reject": "Reject hypothesis",
  "hypothesis restore": "Restore hypothesis", "hypothesis pin": "Pin hypothesis", "hypothesis unpin": "Unpin hypothesis", acknowledge: "Acknowledge", "acknowledge undo": "Undo acknowledgement", "judge undo": "Undo label",
};
export const commandWord = (kind: string): string => COMMANDS[kind] ?? kind;

export const PURPOSES: Record<string, string> = {
  demonstrate: "Demonstration", collect: "Collection", extra: "Extra collection", search: "Search", base: "Base measurement", measure: "Champion measurement", gate: "Gate", confirm: "Confirmation",
};
/** Uses of robot time in a campaign with branches. */
export const ROBOT_USES: Record<string, string> = {
  branches: "branches", champion: "champion on the same train starts", collection: "data collection", gates: "gates",
  measurement: "measurement of the champion", confirmation: "confirmation", base: "base measurement", demonstrations: "demonstrations",
};
/** A state from the last message, while the server or the lab is silent. */
export const lastKnown = (of: Word): Word => ({ icon: "⊘", word: `Last known: ${of.word.toLowerCase()}`, tone: "calm" });
/** Order of the phases in the robot-time bar. */
export const PHASE_ORDER = [
  "rollout", "wait-policy", "reset", "verify", "wait-verdict", "wait-order", "wait-person", "stopped", "fault", "offline",
] as const;
