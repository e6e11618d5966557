/** A filmstrip of an episode: some of its camera images, from first to last, in one image. */

import { useEffect, useState } from "preact/hooks";
import { isExample } from "../session";
import { post } from "../api";
import { sentence } from "./use";

const RENDER_MS = 300_000;

interface StripProps { id: string; label?: string; count?: number; turn?: number }

/** `turn` changes after the images were rendered elsewhere. The image has no content while there are none. */
export function Strip({ id, label = "Camera images", count = 4, turn = 0 }: StripProps) {
  const [state, put] = useState<"loading" | "there" | "none" | "rendering">("loading");
  const [own, again] = useState(0);
  const [why, tell] = useState("");
  const [source, show] = useState("");
  useEffect(() => {
    let gone = false, made = "";
    fetch(`/api/v1/episodes/${id}/strip?count=${count}`, { credentials: "same-origin" })
      .then(async (found) => {
        if (gone) return;
        if (found.status !== 200) return put("none");
        made = URL.createObjectURL(await found.blob());
        if (gone) return URL.revokeObjectURL(made);
        show(made);
        put("there");
      })
      .catch(() => gone || put("none"));
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [id, count, own, turn]);
  const render = () => {
    put("rendering");
    post<{ why: string }>(`/episodes/${id}/replay`, {}, { timeout_ms: RENDER_MS })
      .then((found) => (found.why ? (tell(found.why), put("none")) : again((now) => now + 1)))
      .catch((error: unknown) => (tell(sentence(error)), put("none")));
  };
  if (state === "there") return <a class="strip-image" href={`/episodes/${id}`}><img src={source} alt={label} /></a>;
  return (
    <div class="strip-image none small faint">
      {state === "loading" ? "…" : state === "rendering" ? "Rendering…" : why ? why : isExample.value ? "no images" : <button onClick={render}>Render the images</button>}
    </div>
  );
}
