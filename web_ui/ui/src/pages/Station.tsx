/** One station: live images, phase, commands, take-over, the phases of the last hour, and its last episodes. */

import { useEffect } from "preact/hooks";
import { clockSkew } from "../socket";
import { now as tick, silent, stale } from "../clock";
import { command, question } from "../command";
import { clock, seconds, short, whole } from "../format";
import { CommandList } from "../parts/Commands";
import { Empty, Live, Pill, Stack, Verdicts } from "../parts/Pieces";
import { TakeOver } from "../parts/TakeOver";
import { Dt, Th } from "../parts/Terms";
import { Clock, inTurn, Thumbnail } from "../parts/Tile";
import { useGet } from "../parts/use";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { EpisodePage, Station } from "../types";
import { outcomeWord, PHASE_ORDER, phaseWord, PURPOSES, stationWord } from "../words";

const POLL_MS = 2000;

export function StationPage({ name }: { name: string }) {
  const station = fleet.value?.stations[name];
  if (!fleet.value) return <main><Empty title="Loading…" /></main>;
  if (!station) return <main><h1>{name}</h1><section class="card"><Empty title={`No station ${name} is in a running campaign`}><a href="/">Go to the fleet</a></Empty></section></main>;
  return (
    <main>
      <div class="head">
        <a href="/">← Fleet</a><h1>{name}</h1><Pill of={stationWord(station)} />
        <Acts station={station} />
      </div>
      {station.alarm && <div class="notice warn" role="alert">⚠ {station.alarm}</div>}
      {station.service_by && <div class="notice warn" role="status">⚒ Needs service: {station.service_why} ({station.service_by}). It takes no orders until the service is done.</div>}
      <Live old={stale.value}>
        <div class="columns wide-left">
          <div class="pile">
            <section class="card" aria-label="Live images">
              <div class="body cameras">
                {station.cameras.slice(0, 3).map((camera) => <figure key={camera}><Thumbnail station={name} camera={camera} /><figcaption class="faint small">{camera}</figcaption></figure>)}
                {!station.cameras.length && <Empty title="No camera" />}
              </div>
            </section>
            <Sensors station={station} />
          </div>
          <div class="pile">
            <Facts station={station} />
            <TakeOver station={station} />
          </div>
        </div>
        <Timeline name={name} />
        <Last name={name} />
        <CommandList />
      </Live>
    </main>
  );
}

function Acts({ station }: { station: Station }) {
  const { name } = station, held = station.stopped || (station.paused && !station.service_by);
  return (
    <span class="push acts">
      {mayCommand.value && (
        <>
          {(held || !station.service_by) && <button disabled={stale.value} onClick={() => void command(held ? "resume" : "pause", name)}>{held ? "▶ Resume" : "‖ Pause"}</button>}
          {station.service_by
            ? <button disabled={stale.value} onClick={() => void command("service done", name)} title="The robot works again, and the station takes orders">✓ Service done</button>
            : <button disabled={stale.value} onClick={() => askForService(name)} title="The station finishes its episodes, holds, and takes no orders until the service is done">⚒ Needs service</button>}
          <Motions station={station} />
        </>
      )}
      <button onClick={() => void command("stop", station.name)} aria-label={`Stop ${station.name}`}>■ Stop</button>
    </span>
  );
}

function askForService(name: string): void {
  question.value = {
    title: `Does ${name} need service?`,
    text: "It finishes its episodes, holds, and takes no orders until an operator clears it with “Service done”. Resume does not end this.",
    act: "⚒ Needs service", kind: "service", target: name, reasoned: true,
  };
}

const MOTIONS = { reset: ["↺ Reset", "the first start of the task"], home: ["⌂ Home", "the home position of the task"] } as const;

/** Move idle robots. The lab refuses it while orders may arrive, or while another operator holds the station. */
function Motions({ station }: { station: Station }) {
  const idle = station.paused && !station.stopped && station.phase.startsWith("wait-");
  return (
    <>
      {(["reset", "home"] as const).filter((kind) => station.motions?.includes(kind)).map((kind) => (
        <button key={kind} disabled={stale.value || !idle} onClick={() => void command(kind, station.name)}
          title={idle ? `Every robot of this station moves to ${MOTIONS[kind][1]}; the guard limits it, and Stop ends it` : `Moves idle robots to ${MOTIONS[kind][1]}. Pause the station first, and wait until its episodes have ended`}>
          {MOTIONS[kind][0]}
        </button>
      ))}
      {station.motions?.includes("reset") && !station.motions.includes("home") && <span class="faint small" data-homeless title="A task with the method home_skill has a home position">Home: this task declares no home position</span>}
    </>
  );
}

function Facts({ station }: { station: Station }) {
  return (
    <section class="card" aria-label="State">
      <div class="body pile">
        <Verdicts letters={station.verdicts} />
        <dl class="pairs">
          <Dt of="Phase" /><dd>{stationWord(station).word}{inTurn(station) ? `, most of its ${station.lanes} robots` : <>, <Clock station={station} /></>}</dd>
          <Dt of="Moved by" /><dd data-moved-by={station.moved_by ?? ""}>{movedText(station)}</dd>
          <Dt of="Held by" /><dd>{heldText(station)}</dd>
          <Dt of="Control loop" /><dd>{station.rate_hz ? `${station.rate_hz.toFixed(1)} Hz, jitter ${(station.jitter_ms ?? 0).toFixed(1)} ms (p95)` : "not measured: no rollout yet, or a simulation that runs as fast as it can"}</dd>
          <Dt of="Episodes" /><dd>{whole(station.episodes)}, {station.episodes_per_min.toFixed(0)} per min</dd>
          <Dt of="Robots" /><dd>{station.lanes}</dd>
          <Dt of="Policy version" /><dd class="mono" title={station.deployed}>{short(station.deployed)}</dd>
        </dl>
      </div>
    </section>
  );
}

/** Who commands the first robot now. */
function movedText({ moved_by, operator, stopped_itself, stopped }: Station): string {
  if (stopped) return stopped_itself ? "nothing: its own stop holds it" : "nothing: it is stopped";
  if (!moved_by) return "nothing: it waits";
  if (moved_by === "people") return "nothing: it holds until a person demonstrates";
  if (moved_by === "operator") return `a person: ${operator || "an operator's device"}`;
  if (moved_by === "reset") return "the reset of the task";
  if (moved_by === "home") return "the motion to its home position";
  return moved_by.startsWith("scripted:") ? "the scripted expert" : `policy version ${short(moved_by)}`;
}

/** Whether the robot is held, why, and what clears it. */
function heldText({ stopped, stopped_by, stopped_itself, paused, service_by }: Station): string {
  if (stopped_itself) return "the robot's own stop (its guard or its button): remove the cause at the robot, release the button, then Resume";
  if (stopped) return `a stop of ${stopped_by || "an operator"}: check the robot, then Resume`;
  if (service_by) return `${service_by}, because it needs service: Service done ends it`;
  return paused ? "an operator's pause: Resume ends it" : "not held: it takes orders";
}

/** The newest state of the first robot: joints, forces, gripper, as the task names them. */
function Sensors({ station }: { station: Station }) {
  if (!station.sensed?.length) return null;
  return (
    <section class="card" aria-label="Sensors">
      <header><h2>Sensors</h2><span class="soft small push">newest state{station.lanes > 1 ? " of the first robot" : ""}, about twice a second</span></header>
      <div class="body"><dl class="readings">{station.sensed.map(({ name, unit, value }) => <div key={name}><dt>{name}</dt><dd class="num">{String(value).replaceAll("-", "−")}{unit !== "1" && ` ${unit}`}</dd></div>)}</dl></div>
    </section>
  );
}

interface Stay { since_ms: number; phase: string }

/** The phases of the last hour, with their sums. */
function Timeline({ name }: { name: string }) {
  const stays = useGet<Stay[]>(`/stations/${encodeURIComponent(name)}/phases`);
  useEffect(() => {
    const timer = setInterval(() => silent.value || stays.again(), POLL_MS);
    return () => clearInterval(timer);
  }, []);
  const found = stays.value ?? [];
  if (!found.length) return null;
  void tick.value;
  const end = Date.now() + clockSkew.value, begin = Math.max(end - 3_600_000, found[0]!.since_ms);
  const span = Math.max(1000, end - begin);
  const parts = found.map((stay, index) => {
    const from = Math.max(begin, stay.since_ms), to = Math.max(from, found[index + 1]?.since_ms ?? end);
    return { ...stay, left: (100 * (from - begin)) / span, width: (100 * (to - from)) / span, seconds: (to - from) / 1000 };
  });
  const sums = new Map<string, number>();
  for (const part of parts) sums.set(part.phase, (sums.get(part.phase) ?? 0) + part.seconds);
  return (
    <section class="card" aria-label="Phases">
      <header><h2>Phases</h2><span class="soft small push">last {seconds(span / 1000)}, the phase of most of its robots</span></header>
      <div class="body pile">
        <div class="timeline-bar" role="img" aria-label={`Phases since ${clock(begin)}: ${[...sums].map(([phase, s]) => `${phaseWord(phase).word} ${seconds(s)}`).join(", ")}`}>
          {parts.map((part) => <i key={part.since_ms} class={`fill-${part.phase}`} style={{ left: `${part.left}%`, width: `${part.width}%` }} title={`${phaseWord(part.phase).word} from ${clock(part.since_ms)}, ${seconds(part.seconds)}`} />)}
        </div>
        <Stack unit={seconds} parts={PHASE_ORDER.map((phase) => [phase, sums.get(phase) ?? 0, phaseWord(phase).word])} />
      </div>
    </section>
  );
}

function Last({ name }: { name: string }) {
  const page = useGet<EpisodePage>(`/episodes?outcome=ran&station=${encodeURIComponent(name)}&limit=10`, Math.floor((fleet.value?.stations[name]?.episodes ?? 0) / 10));
  const rows = page.value?.rows ?? [];
  if (!rows.length) return null;
  return (
    <section class="card" aria-label="Last episodes">
      <header><h2>Last episodes</h2><a class="push small" href={`/episodes?station=${encodeURIComponent(name)}`}>all of this station</a></header>
      <div class="flush scroll">
        <table>
          <thead><tr><th>Episode</th><Th of="Ended" /><th>Outcome</th><th>Purpose</th><Th of="Periods" /></tr></thead>
          <tbody>
            {rows.map((row) => (
              <tr class="pick" key={row.order_id} data-to={`/episodes/${row.order_id}`}>
                <td class="mono"><a href={`/episodes/${row.order_id}`}>{row.order_id.slice(-10)}</a></td>
                <td class="right nowrap soft">{row.ended_ms ? clock(row.ended_ms) : "–"}</td>
                <td><Pill of={outcomeWord(row.outcome)} /> <span class="soft small">{row.cause}</span></td>
                <td>{PURPOSES[row.purpose] ?? row.purpose}</td>
                <td class="right">{row.ticks || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
