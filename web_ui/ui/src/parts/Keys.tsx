/** The list of keys, opened with `?`. */

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useKeys } from "./useKeys";

const KEYS: [string, string, string][] = [
  ["Shift+Esc, then Enter", "every page", "stop all robots"],
  ["?", "every page", "this list"],
  ["Tab, Shift+Tab, Enter, Space", "every page", "move, open, press"],
  ["j, k, x, Enter", "Episodes", "move, choose, open"],
  ["← →, with Shift ten frames; Home, End, Space", "an episode", "move in time, replay"],
  ["1, 2, then Enter", "an episode", "label success or failure"],
  ["n", "an episode", "open the next older one"],
  ["a d, s w, q e, …; Esc", "a station that is taken over", "move the robot; give back"],
];
export const listed = signal(false);

export function Keys() {
  const box = useRef<HTMLDialogElement>(null);
  useKeys((event) => {
    if (event.key === "?") listed.value = true;
  });
  useLayoutEffect(() => {
    if (listed.value && !box.current?.open) box.current?.showModal();
    if (!listed.value && box.current?.open) box.current.close();
  }, [listed.value]);
  return (
    <dialog ref={box} onClose={() => (listed.value = false)} aria-labelledby="keys">
      <h2 id="keys">Keys</h2>
      <table>
        <thead><tr><th>Key</th><th>Where</th><th>Does</th></tr></thead>
        <tbody>{KEYS.map(([key, where, does]) => <tr key={key}><td><kbd>{key}</kbd></td><td class="soft">{where}</td><td>{does}</td></tr>)}</tbody>
      </table>
      <div class="row"><button onClick={() => (listed.value = false)}>Close</button></div>
    </dialog>
  );
}
