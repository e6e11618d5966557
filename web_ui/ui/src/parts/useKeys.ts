/** Keyboard shortcuts of a page; not in text fields, not while a dialog is open, not with Ctrl, Meta or Alt. */

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

/** Whether an element takes text; shortcuts work on sliders and check boxes. */
function isField(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return target.type !== "range" && target.type !== "checkbox";
  return target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}
