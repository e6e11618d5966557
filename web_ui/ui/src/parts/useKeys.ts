/** Keyboard shortcuts of a page; not in text fields, not while a dialog is open, not with Ctrl, Meta or Alt. */

import { useLayoutEffect } from "preact/hooks";
import { question } from "../command";

// A layout effect: the keys work from the moment the page is seen; an effect would begin after the paint.
export function useKeys(onKey: (event: KeyboardEvent) => void): void {
  useLayoutEffect(() => {
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
