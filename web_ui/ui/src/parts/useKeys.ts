/** Keys of a page. What is typed into a field, asked in a dialogue, or meant for the browser is left alone. */

import { useEffect } from "preact/hooks";
import { question } from "../command";

export function useKeys(onKey: (event: KeyboardEvent) => void): void {
  useEffect(() => {
    const guarded = (event: KeyboardEvent) => {
      const browsers = event.ctrlKey || event.metaKey || event.altKey;
      if (!browsers && !question.value && !isField(event.target)) onKey(event);
    };
    addEventListener("keydown", guarded);
    return () => removeEventListener("keydown", guarded);
  });
}

/** Sliders and check boxes take no text: the page's keys work there too. */
function isField(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return target.type !== "range" && target.type !== "checkbox";
  return target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}
