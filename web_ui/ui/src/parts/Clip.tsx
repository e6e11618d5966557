/** Camera images of an episode: per camera the image at the shown moment, and a strip of images to jump to. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { post } from "../api";
import { sentence } from "./use";

/** Images in the strip of a camera. */
const STRIP = 12;

interface Shot { tick: number; name: string }
interface ClipProps { label?: string; id: string; again: () => void; names: string[]; tick: number; last: number; seek: (to: number) => void }

export function Clip({ label = "Camera images", id, again, names, tick, last, seek }: ClipProps) {
  const cameras = useMemo(() => byCamera(names), [names]);
  if (!cameras.length) return <Rendering id={id} again={again} />;
  return (
    <section class="card clips" aria-label={label}>
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

/** Render the camera images of a simulated episode now that an operator opened it. */
function Rendering({ id, again }: { id: string; again: () => void }) {
  const [why, tell] = useState("");
  useEffect(() => {
    let gone = false;
    post<{ why: string }>(`/episodes/${id}/replay`, {}, { timeout_ms: RENDER_MS })
      .then((found) => gone || (found.why ? tell(found.why) : again()))
      .catch((error: unknown) => gone || tell(sentence(error)));
    return () => void (gone = true);
  }, [id]);
  if (!why) return <p class="soft small">Rendering the camera images…</p>;
  return <p class="faint small" style={{ overflowWrap: "anywhere" }}>No camera images: {why} To record images on a real robot, set <code>record: all</code> in the station file.</p>;
}

/** A replay steps the simulation again, and renders each frame. */
const RENDER_MS = 300_000;

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
