/** Shows a definition (`title`) without a mouse: on focus by keyboard, and on a tap. */

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

interface Hint { text: string; of: HTMLElement; viaTap: boolean }
const hint = signal<Hint | undefined>(undefined);
/** Pixels between a definition and its element, and the edge of the window. */
const GAP = 6;

const titled = (target: EventTarget | null): HTMLElement | undefined =>
  (target instanceof Element && target.closest<HTMLElement>("[title]")) || undefined;

export function Hints() {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const show = (of: HTMLElement | undefined, viaTap: boolean) => (hint.value = of?.title ? { text: of.title, of, viaTap } : undefined);
    const listening = new AbortController(), { signal: until } = listening;
    addEventListener("focusin", ({ target }) => show(target instanceof Element && target.matches(":focus-visible") ? titled(target) : undefined, false), { signal: until });
    addEventListener("focusout", () => hint.value?.viaTap || show(undefined, false), { signal: until });
    addEventListener("pointerdown", () => show(undefined, false), { signal: until, capture: true });
    // A tap on a button or link acts; a tap on anything else with a definition shows it.
    addEventListener("click", (event) => {
      const tapped = event instanceof PointerEvent && event.pointerType === "touch" ? titled(event.target) : undefined;
      if (tapped && !tapped.closest("a, button, input, select, label, summary")) show(tapped, true);
    }, { signal: until });
    addEventListener("keydown", ({ key }) => key === "Escape" && show(undefined, false), { signal: until });
    addEventListener("scroll", () => show(undefined, false), { signal: until, capture: true, passive: true });
    return () => listening.abort();
  }, []);
  useLayoutEffect(() => {
    const shown = box.current;
    if (!hint.value || !shown) return;
    const at = hint.value.of.getBoundingClientRect(), { width, height } = shown.getBoundingClientRect();
    shown.style.left = `${Math.max(GAP, Math.min(at.left, innerWidth - width - GAP))}px`;
    shown.style.top = `${at.bottom + GAP + height <= innerHeight ? at.bottom + GAP : Math.max(GAP, at.top - GAP - height)}px`;
  });
  return hint.value ? <div class="hint" ref={box} role="status" data-hint>{hint.value.text}</div> : null;
}
