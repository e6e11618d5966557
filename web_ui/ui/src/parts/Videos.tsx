/** Videos of an episode, one for each camera. They play together, and the time axis follows the first. */

import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../api";
import { isExample } from "../session";
import { sentence } from "./use";

const RENDER_MS = 300_000;

/** `at` and `seek` in seconds. */
export function Videos({ id, at, seek }: { id: string; at: number; seek: (to: number) => void }) {
  const [state, put] = useState<{ cameras: string[]; why: string } | "none" | "making">("none");
  const box = useRef<HTMLDivElement>(null), busy = useRef(false);
  const all = () => [...(box.current?.querySelectorAll("video") ?? [])];
  const cameras = typeof state === "object" ? state.cameras : [];
  useEffect(() => {
    const [first, ...others] = all();
    if (!first) return;
    let gone = false;
    const follow = () => {
      if (gone) return;
      if (!first.paused) seek(first.currentTime);
      first.requestVideoFrameCallback(follow);
    };
    first.requestVideoFrameCallback(follow);
    first.onplay = () => (busy.current = true, others.forEach((one) => ((one.currentTime = first.currentTime), void one.play())));
    first.onpause = () => (busy.current = false, others.forEach((one) => one.pause()));
    return () => void (gone = true);
  }, [cameras.length]);
  useEffect(() => {
    if (!busy.current) all().forEach((one) => Math.abs(one.currentTime - at) > 0.02 && (one.currentTime = at));
  }, [at]);
  const make = () => {
    put("making");
    post<{ cameras: string[]; why: string }>(`/episodes/${id}/videos`, {}, { timeout_ms: RENDER_MS }).then(put).catch((error: unknown) => put({ cameras: [], why: sentence(error) }));
  };
  if (isExample.value) return null;
  if (state === "none") return <p><button onClick={make}>▶ Make the video</button> <span class="faint small">one image per control period; takes some seconds</span></p>;
  if (state === "making") return <p class="soft small" role="status">Making the video…</p>;
  if (!cameras.length) return <p class="faint small" role="status">No video: {state.why}</p>;
  return (
    <section class="card" aria-label="Videos">
      <div class="body cameras" ref={box}>
        {cameras.map((camera, index) => <figure key={camera}><video src={`/api/v1/episodes/${id}/videos/${camera}`} controls={index === 0} muted playsInline preload="auto" aria-label={`Video of ${camera}`} /><figcaption class="faint small">{camera}</figcaption></figure>)}
      </div>
    </section>
  );
}
