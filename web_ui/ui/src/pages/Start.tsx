/** Start a campaign: task, recipe, stations, goal, budget and agents, with what earlier campaigns cost. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { post } from "../api";
import { percent, seconds, whole } from "../format";
import { Empty, Failed } from "../parts/Pieces";
import { Queue } from "../parts/Queue";
import { Th } from "../parts/Terms";
import { sentence, useGet } from "../parts/use";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { Cost, Descriptions, QueueLine, StartChoices, Template } from "../types";

type Form = Template & { name: string };

export function StartPage() {
  const choices = useGet<StartChoices>("/start");
  const [form, put] = useState<Form | undefined>(undefined);
  const [queued, note] = useState<QueueLine | undefined>(undefined);
  useEffect(() => {
    const first = choices.value?.templates.find((one) => one.template === "pin_insertion") ?? choices.value?.templates[0];
    if (first && !form) put({ ...first, name: first.template });
  }, [choices.value]);
  if (choices.problem) return <main><Failed sentence={choices.problem} /></main>;
  if (!choices.value || !form) return <main><Empty title="Loading…" /></main>;
  if (!mayCommand.value) return <main><h1>Start a campaign</h1><section class="card"><Empty title="Only operators start campaigns"><span>An admin can give you the role operator, in Settings.</span></Empty></section></main>;
  return (
    <main>
      <h1>Start a campaign</h1>
      <Fields form={form} choices={choices.value} change={(changes) => put({ ...form, ...changes })} done={note} />
      {queued && <p role="status">{queued.name} is queued. {fleet.value?.connected ? "It starts when the running campaign has ended." : "It starts in a few seconds; the fleet appears on the page Fleet."} <a href="/">Go to the fleet</a></p>}
      <Queue when={queued?.id} />
    </main>
  );
}

interface FieldsProps { form: Form; choices: StartChoices; change: (changes: Partial<Form>) => void; done: (line: QueueLine) => void }

function Fields({ form, choices, change, done }: FieldsProps) {
  const [problem, tell] = useState("");
  const [busy, work] = useState(false);
  const start = (event: SubmitEvent) => {
    event.preventDefault();
    work(true);
    tell("");
    const { by: _by, confirm_starts: _starts, commands: _commands, ...asked } = form; // as in the campaign file
    post<QueueLine>("/start", asked, { timeout_ms: START_MS }).then(done).catch((error: unknown) => tell(sentence(error))).finally(() => work(false));
  };
  const shipped = choices.templates.find((one) => one.template === form.template)?.agents ?? [];
  const from = (name: string) => {
    const found = choices.templates.find((one) => one.template === name);
    if (found) change({ ...found, name: found.template });
  };
  return (
    <div class="columns wide-left">
      <form class="card" onSubmit={start} aria-label="New campaign">
        <div class="body form">
          <Choice label="Begin from" value={form.template} options={choices.templates.map((one) => one.template)} pick={from} note="a shipped file, which fills the form" />
          <label class="field"><span>Name <small class="faint">letters, digits, . _ : and -</small></span><input required maxLength={80} pattern="[0-9A-Za-z_:\-][0-9A-Za-z_.:\-]*" value={form.name} onInput={(event) => change({ name: event.currentTarget.value })} /></label>
          <Choice label="Task" value={form.task} options={choices.tasks} pick={(task) => change({ task })} />
          <Choice label="Recipe" value={form.recipe} options={choices.recipes} pick={(recipe) => change({ recipe })} note="how versions are trained" />
          <About of={choices.about} form={form} />
          <Amount label="Goal: confirmed success" unit={goalUnit(form)} value={100 * form.success} least={1} most={100} step={0.1} set={(value) => change({ success: value / 100 })} />
          <Amount label="Simulated stations" unit="on this machine; 0: only stations of the lab" value={form.stations} least={0} most={1000} set={(stations) => change({ stations, bind: stations ? form.bind : form.bind || LAB })} />
          <Amount label="Robots of each station" unit="they move in step" value={form.lanes} least={1} most={1000} set={(lanes) => change({ lanes })} />
          <label class="field"><span>Stations of the lab connect at <small class="faint">IP address of this machine and port</small></span><input maxLength={200} required={!form.stations} placeholder={`none; all addresses: ${LAB}`} value={form.bind} onInput={(event) => change({ bind: event.currentTarget.value.trim() })} /></label>
          <Enrolled names={choices.enrolled} />
          <Amount label="Wall-clock time" unit="minutes, 0: no limit" value={form.wall_s / 60} least={0} most={1e6} step="any" set={(value) => change({ wall_s: 60 * value })} />
          <Amount label="Rounds" unit="at most; each trains a candidate" value={form.rounds} least={0} most={100000} set={(rounds) => change({ rounds })} />
          <Amount label="Robot time" unit="robot-hours, 0: no limit" value={form.robot_s / 3600} least={0} most={1e6} step="any" set={(value) => change({ robot_s: 3600 * value })} />
          <Amount label="Tokens of agents" unit="all sessions together, 0: no limit" value={form.tokens} least={0} most={1e12} set={(tokens) => change({ tokens })} />
          <Amount label="Cost of agents" unit="in the currency of the price file, 0: no limit" value={form.money} least={0} most={1e9} step="any" set={(money) => change({ money })} />
          <Several label="Recipes of branches" note="each branch takes robot time to act and train; a gate decides about its version" options={choices.recipes} about={choices.about.recipes} chosen={form.regimes} set={(regimes) => change({ regimes })} />
          <Several label="Agents" note="propose experiments, which a gate decides; a language model costs tokens. One that the file names keeps its options and limits" options={choices.agents} about={choices.about.agents} chosen={form.agents.map((one) => one.name)}
            set={(names) => change({ agents: names.map((name) => [...form.agents, ...shipped].find((one) => one.name === name) ?? { name, lanes: 1 }) })} />
          {problem && <div class="notice warn" role="alert">{problem}</div>}
          <button class="primary" disabled={busy}>{busy ? "Checking the parts…" : fleet.value?.connected ? "Add to the queue" : "Start"}</button>
        </div>
      </form>
      <Costs task={form.task} budget={form} />
    </div>
  );
}

/** Every address of this machine, with the port of the documents. */
const LAB = "tcp://0.0.0.0:7000";

/** Which stations may join at that address. */
function Enrolled({ names }: { names: string[] }) {
  return (
    <p class="small soft joins">
      A station joins with an enrolled key and the same task: <code>enpire station enroll NAME --connect tcp://HOST:PORT</code>.{" "}
      {names.length ? `Enrolled in this home: ${names.join(", ")}.` : "No station is enrolled in this home."}
    </p>
  );
}

/** The server loads every part that the campaign names. */
const START_MS = 120_000;

function Costs({ task, budget }: { task: string; budget: Form }) {
  const costs = useGet<Cost[]>(`/start/costs?task=${encodeURIComponent(task)}`);
  const found = costs.value ?? [];
  return (
    <section class="card" aria-label="Cost">
      <header><h2>What it may cost</h2></header>
      <div class="body pile">
        <p>{limits(budget)}</p>
        {found.length ? (
          <>
            <p>{found.length === 1 ? "The earlier campaign of this task in this home used" : `The newest ${found.length} campaigns of this task in this home used, in the median,`} <b>{seconds(middle(found.map((one) => one.wall_s)))}</b>, <b>{middle(found.map((one) => one.robot_h)).toFixed(2)} robot-hours</b> and <b>{whole(middle(found.map((one) => one.tokens)))} tokens</b>.</p>
            <div class="scroll">
              <table>
                <thead><tr><th>Campaign</th><Th of="Time" /><Th of="Robot-hours" /><Th of="Success" /></tr></thead>
                <tbody>
                  {found.map((one) => <tr key={one.id}><td><a href={`/campaigns/${one.id}`}>{one.name}</a></td><td class="right nowrap">{seconds(one.wall_s)}</td><td class="right">{one.robot_h.toFixed(2)}</td><td class="right nowrap">{percent(one.success)}</td></tr>)}
                </tbody>
              </table>
            </div>
          </>
        ) : <p class="soft">No campaign of this task has ended in this home, so there is no estimate.</p>}
      </div>
    </section>
  );
}

function middle(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** What ends the campaign, and the most robot time that it can use. Branches use up no rounds. */
function limits({ wall_s, robot_s, rounds, stations, lanes, regimes, agents }: Form): string {
  const hours = (spent_s: number) => `${(spent_s / 3600).toFixed(2)} robot-hours`, robots = stations * lanes;
  const branches = regimes.length > 0 && agents.length > 0, trained = `${rounds} round${rounds === 1 ? "" : "s"}`;
  const ends = [wall_s ? seconds(wall_s) : "", robot_s ? hours(robot_s) : "", branches ? "" : trained].filter(Boolean);
  const most = wall_s && robots && !robot_s ? ` ${robots} simulated robot${robots === 1 ? "" : "s"} use at most ${hours(wall_s * robots)}.` : "";
  const until = ends.length ? `, or after ${ends.join(" or ")}, whichever comes first` : "";
  const resumes = branches ? ` After ${trained}, branches continue until every agent has finished.` : "";
  return `It ends when the goal is confirmed${until}.${resumes}${wall_s || robot_s ? "" : branches ? " Branches need a limit of time." : " It has no limit of time."}${most}`;
}

/** What the percentage of the goal is measured on. */
function goalUnit({ by, confirm_starts, commands }: Form): string {
  const measured = by === "bound" ? `%, exact 95 % lower bound, ${confirm_starts} fresh starts` : `% of ${confirm_starts} fresh starts`;
  return commands ? `${measured}, median at most ${commands} commands` : measured;
}

/** What the chosen file, task and recipe are. */
function About({ of, form }: { of: Descriptions; form: Form }) {
  const lines = [["File", of.templates[form.template]], ["Task", of.tasks[form.task]], ["Recipe", of.recipes[form.recipe]]];
  return <dl class="pairs about">{lines.map(([what, said]) => said && <><dt>{what}</dt><dd>{said}</dd></>)}</dl>;
}

interface ChoiceProps { label: string; value: string; options: string[]; pick: (value: string) => void; note?: string }

function Choice({ label, value, options, pick, note }: ChoiceProps) {
  return (
    <label class="field"><span>{label} {note && <small class="faint">{note}</small>}</span>
      <select value={value} onChange={(event) => pick(event.currentTarget.value)}>
        {options.map((one) => <option value={one}>{one}</option>)}
      </select>
    </label>
  );
}

interface AmountProps { label: string; unit: string; value: number; least: number; most: number; step?: number | "any"; set: (value: number) => void }

/** A number; what is typed stays as it is, also while it is no number yet. */
function Amount({ label, unit, value, least, most, step = 1, set }: AmountProps) {
  const shown = String(+value.toPrecision(6));
  const [text, type] = useState(shown);
  useEffect(() => void (+text !== +shown && type(shown)), [shown]); // another template was chosen
  const onInput = (event: { currentTarget: HTMLInputElement }) => {
    type(event.currentTarget.value);
    if (Number.isFinite(event.currentTarget.valueAsNumber)) set(event.currentTarget.valueAsNumber);
  };
  return (
    <label class="field"><span>{label} <small class="faint">{unit}</small></span>
      <input type="number" required min={least} max={most} step={step} value={text} onInput={onInput} />
    </label>
  );
}

interface SeveralProps { label: string; note: string; options: string[]; about: Record<string, string>; chosen: string[]; set: (names: string[]) => void }

/** `about`: what each option is. */
function Several({ label, note, options, about, chosen, set }: SeveralProps) {
  const toggle = (name: string): ComponentChildren => (
    <label class="check"><input type="checkbox" checked={chosen.includes(name)} onChange={() => set(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name])} /> {name}</label>
  );
  return (
    <fieldset class="several">
      <legend>{label} <small class="faint">{note}</small></legend>
      <div class="acts">{options.map(toggle)}</div>
      <details class="small"><summary>What they are</summary><dl class="pairs">{options.map((name) => about[name] && <><dt>{name}</dt><dd>{about[name]}</dd></>)}</dl></details>
    </fieldset>
  );
}
