/** The pictures of an episode: one row per camera, large at the moment shown, the others as a strip to jump to. */

import { useMemo } from "preact/hooks";

interface Shot { tick: number; name: string }
interface FilmProps { id: string; names: string[]; tick: number; last: number; seek: (to: number) => void }

export function Film({ id, names, tick, last, seek }: FilmProps) {
  const cameras = useMemo(() => byCamera(names), [names]);
  if (!cameras.length) {
    return <p class="faint small">No pictures were taken of this episode. One of a simulated station can be run again with a camera: <code>enpire episodes replay {id}</code></p>;
  }
  return (
    <section class="card films" aria-label="Pictures">
      {cameras.map(([camera, shots]) => {
        const shown = shots.filter((one) => one.tick <= tick).at(-1) ?? shots[0]!;
        return (
          <figure key={camera}>
            <img src={address(id, shown)} alt={`${camera} at frame ${shown.tick}`} />
            <figcaption><b>{camera}</b> <span class="faint num">frame {shown.tick}</span></figcaption>
            <div class="strip">
              {shots.map((one) => (
                <button class={one === shown ? "on" : ""} aria-label={`${camera}, frame ${one.tick}`} aria-pressed={one === shown} onClick={() => seek(Math.min(one.tick, last))}>
                  <img src={address(id, one)} alt="" loading="lazy" />
                </button>
              ))}
            </div>
          </figure>
        );
      })}
    </section>
  );
}

const address = (id: string, shot: Shot) => `/api/v1/episodes/${id}/pictures/${shot.name}`;

/** Names are CAMERA_TICK.jpg. */
function byCamera(names: string[]): [string, Shot[]][] {
  const found = new Map<string, Shot[]>();
  for (const name of names) {
    const match = /^(.+)_(\d+)\.jpg$/.exec(name);
    if (match) found.set(match[1]!, [...(found.get(match[1]!) ?? []), { tick: Number(match[2]), name }]);
  }
  for (const list of found.values()) list.sort((a, b) => a.tick - b.tick);
  return [...found];
}
