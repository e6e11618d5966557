/** The documents of the API, as web_ui/documents.py and enpire/queries/models.py define them. */

export type Phase =
  | "rollout" | "wait-policy" | "wait-verdict" | "reset" | "verify" | "wait-order" | "wait-person" | "fault" | "stopped" | "offline";
export type CommandKind =
  | "pause" | "resume" | "stop" | "service" | "service done" | "reset" | "home" | "pause campaign" | "continue campaign" | "end campaign" | "change limits" | "rollback" | "promote"
  | "judge success" | "judge failure" | "judge unsafe" | "judge undo" | "experiment quarantine" | "experiment clear" | "experiment rerun" | "hypothesis propose" | "hypothesis reject"
  | "hypothesis restore" | "hypothesis pin" | "hypothesis unpin" | "acknowledge" | "acknowledge undo";
export type CommandState = "requested" | "accepted" | "effective" | "refused";
export type Role = "viewer" | "operator" | "admin";

export interface Rate { successes: number; n: number; low: number; high: number; rate?: number | null }

export interface Station {
  name: string; phase: Phase; since_ms: number; lanes: number; episodes: number; episodes_per_min: number;
  verdicts: string; deployed: string; paused: boolean; stopped: boolean; alarm: string; cameras: string[];
  stopped_by?: string; stopped_itself?: boolean; rate_hz?: number; jitter_ms?: number; sensed?: { name: string; unit: string; value: number }[];
  service_by?: string; service_why?: string; motions?: string[]; moved_by?: string; operator?: string; viability?: number | null;
}

export interface Headline {
  id: string; name: string; task: string; elapsed_s: number; wall_budget_s: number; round: number;
  phase_text: string; goal: number; goal_by: "rate" | "bound"; champion: string; success?: Rate; mru?: number; motion?: number | null; real_time_factor?: number | null;
  episodes: Record<string, number>; paused: boolean; paused_why: string; stopped: boolean;
  /** Number of the newest ledger event. */
  newest_event: number;
  simulator_truth: boolean;
}

export interface RoundPoint { round: number; purpose: string; success: Rate; id: string }
export interface LearnerBar { stage: string; done: number; total: number }
export interface GateBar {
  id: string; k: number; candidate: string; pairs: number; max_pairs: number; wins: number; losses: number; log_e: number; need: number; more?: number;
}

/** One cause for which an operator is needed. `names`: stations, or the campaign. `default`: what holds without an answer. */
export interface Alarm {
  key: string; text: string; tone: string; names: string[]; since_ms: number; newest_ms: number; responses: CommandKind[]; default: string;
  acknowledged_by: string; acknowledged_ms?: number | null;
}
/** What became of the messages to the chat. */
export interface WebhookState { configured: boolean; sent: number; last_ms?: number | null; problem: string; page: string; /** Whether only the lab's machine can open `page`. */ local: boolean; images: boolean; /** Whether the chat can load an image from `page`. */ reached: boolean }

export interface FleetDocument {
  connected: boolean; why: string; campaign?: Headline; learner?: LearnerBar; gates: GateBar[]; rounds: RoundPoint[];
  stations: Record<string, Station>;
  /** What needs an operator, by cause. */
  alarms: Record<string, Alarm>;
  /** phase -> seconds at its 95th and 99th percentile, once enough were seen. */
  usual: Record<string, [number, number]>;
}

export interface Command {
  id: string; verb: CommandKind; target: string; by: string; reason: string; state: CommandState; requested_ms: number; took_s?: number; why: string;
}

export interface Success {
  id: string; success?: number | null; low: number; high: number; n: number; successes: number;
}
export interface Confirm extends Success { bound: number; announced: number; passed?: boolean | null; median?: number | null; median_low?: number | null; median_high?: number | null; limit_ticks?: number }

export interface GateView {
  id: string; round: number; k: number; champion: string; candidate: string; decision: string; reason: string;
  pairs: number; max_pairs: number; wins: number; losses: number; both: number; neither: number; log_e: number;
  log_need: number; difference_low?: number | null; difference_high?: number | null;
  champion_success: Success; candidate_success: Success; opened_s: number; decided_s?: number | null;
}
export interface LearnerView {
  job: string; learner: string; parent: string; state: string; why: string; seconds?: number | null;
  figures: Record<string, number>;
}
/** Episodes of a round: asked for, newly used and how these ended, collected since the round before; all_used with those of earlier rounds. */
export interface DataView {
  asked: number; asked_of: "successes" | "demonstrations" | "rollouts"; used?: number | null; succeeded?: number | null; stopped?: number | null; collected: number; all_used?: number | null;
}
export interface RoundView {
  data: DataView;
  round: number; collection: Success; candidate: string; learner?: LearnerView | null; gate?: GateView | null;
}
export interface StationView {
  id: string; state: string; cause: string; lanes: number; utilisation?: number | null;
  robot_time: Record<string, number>;
}
export interface Experiment {
  id: string; phase: string; decision: string; why: string; changes: Record<string, unknown>; policy_id: string;
  gate_id: string; delta?: number | null; low?: number | null; high?: number | null; adopted_by: string[];
  /** Of a code candidate: its commit. */
  commit?: string;
  /** The experiment that an operator asked to have tried again. */
  rerun_of?: string;
}
export interface Idea {
  id: string; depth: number; proposed_s: number; statement: string; falsifier: string; kind: string; regime: string;
  author: string; lane: string; parents: string[]; edges: [string, string][]; mark: string; marked_by: string; marked_why: string; experiments: Experiment[];
}
export interface BranchGate {
  id: string; decision: string; reason: string; success: Success; difference?: number | null; low?: number | null; high?: number | null;
}
/** One branch; `continues` is the experiment whose branch it continues. */
export interface Branch {
  id: string; number: number; lane: string; statement: string; regime: string; changes: Record<string, unknown>; continues: string;
  parent: string; rollouts_alone: boolean; phase: string; decision: string; why: string; turns: number; versions: number; newest: string;
  learns_from: string; episodes?: number | null;
  sources?: { demonstrations: number; own: number; ancestors: number; others: number } | null; search: Success; median?: number | null;
  gain?: { n: number; mean: number; low: number; high: number; success: number; success_low: number; success_high: number } | null; gate?: BranchGate | null;
  robot_s: number; gate_s: number; learner_s: number; tokens: number; money: Record<string, number>; calls_of_unknown_cost: number; share: number;
  /** Difference in success per robot-hour of its search and its gates. */
  gain_per_robot_h?: { success: number; low: number; high: number; at: string } | null;
}
/** The sessions that share, or one isolated session: what its best version gained over the base. */
export interface Arm {
  lanes: string[]; branches: number; robot_s: number; version: string; n: number; success?: number | null; low?: number | null; high?: number | null;
  per_robot_h?: number | null; per_robot_h_low?: number | null; per_robot_h_high?: number | null;
}
export interface Branches { branches: Branch[]; acting: number; sharing: string; robot_time: Record<string, number>; arms: Arm[] }
/** The last event of the ledger, SEQUENCE:HASH. */
export interface LedgerHead { head: string; events: number }
export interface CampaignLine { id: string; name: string; task: string; state: string; began: string }
export interface CampaignView {
  id: string; name: string; task: string; state: string; reason: string; began: string; seed: number;
  goal: { success: number; by: "rate" | "bound"; confirm_starts: number; commands: number; limit_ticks: number };
  /** 0 is without a limit. */
  budget?: { wall_s: number; rounds: number; robot_s: number } | null;
  rounds: RoundView[]; gates: GateView[]; deployments: { at_s: number; id: string }[]; base?: Success | null; champion?: Success | null; confirm?: Confirm | null;
  episodes: Record<string, number>;
  /** Orders that never began; they are among the aborted ones. */
  released: number;
  /** The simulation itself says what succeeded, and no verifier of sensors. */
  simulator_truth?: boolean; worst_case?: Success | null; mru?: number | null;
  motion?: number | null; real_time_factor?: number | null; rollouts_used: { used: number; n: number; share?: number | null };
  robot_time: Record<string, number>; robot_h: number; wall_s: number; time_to_goal_s?: number | null;
  /** Success over the base, in [-1, 1], in all and per robot-hour, with 95 % intervals. */
  gain?: { delta: number; low: number; high: number; robot_h: number; per_robot_h: number; per_robot_h_low: number; per_robot_h_high: number } | null;
  robot_h_to_goal?: number | null; tokens: { fresh: number; cached: number; output: number };
  /** Every version, oldest first. */
  versions: VersionView[];
  /** Promotions for more success: version minus the champion of its gate, with the gate's interval. */
  raised: { id: string; over: string; round: number; branch: number; gain: number; low: number; high: number; pairs: number; rolled_back: string }[];
  search_gate_gap?: number | null; stations: StationView[]; ideas: Idea[];
  /** Every version with a trial on hidden starts; rates[k - 1] is pass@k. */
  pass_at: { id: string; round: number; rates: Success[] }[];
  /** Whether the pairs of the decided gates are independent, as their error level assumes. */
  independence?: { found: boolean; sentence: string } | null;
  branches?: Branches | null;
  /** Calls of language models, tokens and money of the agent sessions. */
  spending?: { total: LaneSpending; lanes: LaneSpending[] } | null;
  /** Each agent session, then the campaign with `lane` empty; empty without experiments. */
  kept_points: KeptCost[];
  /** Experiments and versions that were put into quarantine, oldest first. */
  quarantine: { subject: string; experiment_id: string; policy_id: string; tripwire: string; why: string; by: string; episodes: string[]; cleared_by: string; reason: string }[];
}
/** Difference in success, with its 95 % interval. */
export interface Effect { delta: number; low: number; high: number }
/** What each kept change contributed, as `enpire campaign attribute` measured it. */
export interface Attribution {
  starts: number; episodes: number; seed: number; exact: boolean; left_out: string[];
  changes: { experiment: string; changes: Record<string, unknown>; regime?: string; version?: string; effects: { leave_one_out: Effect; shapley: Effect } }[];
}
/** The files of a code candidate that differ from those that it continues; `lines` as `diff -u` writes them. */
export interface CodeDiff { against: string; files: { path: string; added: number; removed: number; lines: string[] }[] }
export interface LaneSpending {
  lane: string; calls: number; lost: number; failed: number; fresh: number; cache_read: number; cache_write: number; output: number;
  counted_for_budget: number; money: Record<string, number>; calls_of_unknown_cost: number; tokens_limit: number; money_limit: number;
}
export interface KeptCost {
  lane: string; experiments: number; kept: number; points: number; robot_s: number; tokens: number; money: Record<string, number>;
  money_is_known: boolean; robot_min_per_point?: number | null; tokens_per_point?: number | null; money_per_point?: Record<string, number> | null;
}
export interface VersionView {
  id: string; kind: string; parent: string; round: number; recipe_hash: string; data_hash: string; state: string;
  made_s: number; hidden: Success;
  /** Number of the branch that made it; 0 for a version of a round. */
  branch?: number;
  /** Why it was rolled back; empty otherwise. */
  why: string;
}

export interface EpisodeLine {
  order_id: string; campaign_id: string; outcome: string; cause: string; person_outcome?: string | null; purpose: string; round: number;
  station: string; policy_id: string; gate_id: string; pair: number; side: string; ticks: number; confidence: number; ended_ms?: number | null;
}
/** Two trials of a gate from the same hidden start; `champion` and `candidate` are their episodes. */
export interface GatePair { pair: number; champion: string; champion_outcome: string; candidate: string; candidate_outcome: string }
export interface EpisodePage { rows: EpisodeLine[]; next?: number | null }
export interface EpisodeView {
  episode: EpisodeLine; start_split: string; start_index: number; ran_policy_id: string; seconds: number;
  reset_attempts: number; clipped: number; sha256: string; pictures: string[];
}
export interface Curve { name: string; unit: string; values: (number | null)[] }
export interface Span { first: number; last: number; source: string }
export interface Series {
  rate_hz: number | null; frames: number; tick: number[]; state: Curve[]; action: Curve[]; figures: Curve[];
  segments: Span[]; decisions: number[]; events: { tick: number; name: string }[];
}

/** A shipped campaign file, as the form of a new campaign begins. */
export interface Template {
  template: string; task: string; recipe: string; regimes: string[]; success: number; by: "rate" | "bound"; confirm_starts: number; commands: number; stations: number; lanes: number; bind: string;
  wall_s: number; rounds: number; robot_s: number; tokens: number; money: number; agents: { name: string; lanes: number }[];
}
export interface StartChoices { templates: Template[]; tasks: string[]; recipes: string[]; agents: string[]; enrolled: string[]; about: Descriptions }
/** Name -> what it is, one sentence. */
export type Descriptions = Record<"templates" | "tasks" | "recipes" | "agents", Record<string, string>>;
/** What an earlier campaign used. */
export interface Cost { id: string; name: string; state: string; wall_s: number; robot_h: number; tokens: number; success?: number | null }
/** `why`: why it could not start; empty while it waits. */
export interface QueueLine { id: string; name: string; task: string; by: string; asked_ms: number; why: string }

/** A task that an agent wrote; its texts are the agent's. `refused`: why its present files cannot be approved. */
export interface AuthoredTask {
  id: string; name: string; state: "damaged" | "proposed" | "scored" | "approved" | "withdrawn"; about: string; author: string; lane: string; campaign_id: string;
  digest: string; /** Digest of the approved files. */ approved: string; by: string; at: string; reason: string; refused: string;
  score?: { passed: number; applied: number; failed: string[]; precision?: number | null; recall?: number | null; verifier: string } | null;
}
export interface TaskFiles { digest: string; files: { path: string; text: string }[] }

/** Index pairs and rates of web_ui/routes/failures.py. */
export interface StartCell { column: number; row: number; success: Success; failed: string[] }
/** `y` is -1 for a task with one start value. */
export interface StartMap { x: number; y: number; bins: number; cells: StartCell[] }
export interface FailureCluster {
  number: number; n: number; share: number; outcome: string; cause: string; what: string; example: string; stations: [string, number][];
}
export interface WhereItFails {
  campaign_id: string; policy_id: string; starts: string; station: string; success: Success; is_cut: boolean;
  axes: { name: string; low: number; high: number; spread: number }[]; map?: StartMap | null; stations: Success[]; versions: Success[];
  clusters: FailureCluster[]; compared: number; hints: { sentence: string; link: string; order_id: string }[];
}
