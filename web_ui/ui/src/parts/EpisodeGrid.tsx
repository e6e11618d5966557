/** Episodes as filmstrips; each can be chosen. */

import { clock, short } from "../format";
import { query } from "../router";
import type { EpisodeLine } from "../types";
import { outcomeWord, PURPOSES } from "../words";
import { addressOf } from "./episodeFilters";
import { Pill } from "./Pieces";
import { Strip } from "./Strip";

interface GridProps { rows: EpisodeLine[]; chosen: ReadonlySet<string>; pick: (id: string, on: boolean) => void }

export function EpisodeGrid({ rows, chosen, pick }: GridProps) {
  return (
    <div class="body strip-grid">
      {rows.map((row) => (
        <article class={`episode-card ${chosen.has(row.order_id) ? "on" : ""}`} key={row.order_id}>
          <Strip id={row.order_id} label={`Images of ${row.order_id.slice(-10)}, first to last`} />
          <div class="beside">
            <input type="checkbox" aria-label={`Choose ${row.order_id.slice(-10)}`} checked={chosen.has(row.order_id)} onChange={(event) => pick(row.order_id, event.currentTarget.checked)} />
            <a class="mono" href={addressOf(row.order_id, query.value)}>{row.order_id.slice(-10)}</a>
            <Pill of={outcomeWord(row.outcome)} />
          </div>
          <p class="small soft">{row.cause ? `${row.cause} · ` : ""}{PURPOSES[row.purpose] ?? row.purpose} · {row.station} · {short(row.policy_id)}{row.ended_ms ? ` · ${clock(row.ended_ms)}` : ""}</p>
        </article>
      ))}
    </div>
  );
}
