/** Camera images of an episode: per camera the image at the shown moment, and a strip of images to jump to. */

import { useMemo } from "preact/hooks";

/** Images in the strip of a camera. */
const STRIP = 12;

interface Shot { tick: number; name: string }
interface ClipProps { id: string; names: string[]; tick: number; last: number; seek: (to: number) => void }

export function Clip({ id, names, tick, last, seek }: ClipProps) {
  const cameras = useMemo(() => byCamera(names), [names]);
  if (!cameras.length) {
    return <p class="faint small">No camera images were recorded with this episode. If its station is simulated, run <code>enpire episodes replay {id}</code> and reload this page. To record images, set <code>record: all</code> in the station file.</p>;
  }
  return (
    <section class="card clips" aria-label="Camera images">
      {cameras.map(([camera, shots]) => {
        const shown = shots.filter((one) => one.tick <= tick).at(-1) ?? shots[0]!;
        return (
          <figure key={camera}>
            <img src={address(id, shown)} alt={`${camera} at frame ${shown.tick}`} />
            <figcaption><b>{camera}</b> <span class="faint num">frame {shown.tick}</span></figcaption>
            <div class="strip">
              {evenly(shots, STRIP).map((one) => (
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

/** At most `most` items of a list, evenly spaced, with the first and the last. */
function evenly<T>(list: T[], most: number): T[] {
  if (list.length <= most) return list;
  return Array.from({ length: most }, (_, index) => list[Math.round((index * (list.length - 1)) / (most - 1))]!);
}

/** Names are CAMERA_TICK.jpg or .png. */
function byCamera(names: string[]): [string, Shot[]][] {
  const found = new Map<string, Shot[]>();
  for (const name of names) {
    const match = /^(.+)_(\d+)\.(?:jpg|png)$/.exec(name);
    if (match) found.set(match[1]!, [...(found.get(match[1]!) ?? []), { tick: Number(match[2]), name }]);
  }
  for (const list of found.values()) list.sort((a, b) => a.tick - b.tick);
  return [...found];
}
