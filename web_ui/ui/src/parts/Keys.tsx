/** Help, opened with `?`: the keys, and what the numbers of the page in view mean. */

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { meaning, TERMS } from "../terms";
import { useKeys } from "./useKeys";

const KEYS: [string, string, string][] = [
  ["Shift+Esc, then Enter", "every page", "stop all robots"],
  ["?", "every page", "these keys, and what the numbers of the page mean"],
  ["Tab, Shift+Tab, Enter, Space", "every page", "move, open, press"],
  ["j, k, x, Enter", "Episodes", "move, choose, open"],
  ["← →, with Shift ten frames; Home, End, Space", "an episode", "move in time, replay"],
  ["1, 2, then Enter", "an episode", "label success or failure"],
  ["n", "an episode", "open the next older one"],
  ["a d, s w, q e, …; Esc", "a station that is taken over", "move the robot; give back"],
];
export const listed = signal(false);

/** [name, definition] of each number in view, by name. */
function definitions(): [string, string][] {
  const named = new Map(Object.entries<string>(TERMS).map(([name, meaning]) => [meaning, name]));
  const found = new Map<string, string>();
  for (const one of document.querySelectorAll<HTMLElement>("#content [title]")) {
    const name = one.dataset["term"] ?? (one.matches("dt, th") ? one.textContent?.trim() : named.get(one.title));
    if (name) found.set(name, meaning(name) ?? one.title);
  }
  return [...found].sort(([a], [b]) => a.localeCompare(b, "en"));
}

export function Keys() {
  const box = useRef<HTMLDialogElement>(null);
  useKeys((event) => {
    if (event.key === "?") listed.value = true;
  });
  useLayoutEffect(() => {
    if (listed.value && !box.current?.open) box.current?.showModal();
    if (!listed.value && box.current?.open) box.current.close();
  }, [listed.value]);
  const defined = listed.value ? definitions() : [];
  return (
    <dialog ref={box} class="help" onClose={() => (listed.value = false)} aria-labelledby="keys">
      <div class="head"><h2 id="keys">Keys</h2><button class="push" onClick={() => (listed.value = false)}>Close</button></div>
      <table>
        <thead><tr><th>Key</th><th>Where</th><th>Does</th></tr></thead>
        <tbody>{KEYS.map(([key, where, does]) => <tr key={key}><td><kbd>{key}</kbd></td><td class="soft">{where}</td><td>{does}</td></tr>)}</tbody>
      </table>
      {defined.length > 0 && (
        <section aria-labelledby="definitions">
          <h2 id="definitions">Numbers on this page</h2>
          <dl class="definitions">{defined.map(([name, meaning]) => <div key={name}><dt>{name}</dt><dd>{meaning}</dd></div>)}</dl>
        </section>
      )}
    </dialog>
  );
}
