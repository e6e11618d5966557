/** Shows a definition (`title`) without a mouse: on focus by keyboard, and on a tap. */

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

interface Hint { text: string; of: HTMLElement; viaTap: boolean }
const hint = signal<Hint | undefined>(undefined);
/** Pixels between a definition and its element, and the edge of the window. */
const GAP = 6;

const titled = (target: EventTarget | null): HTMLElement | undefined =>
  (target instanceof Element && target.closest<HTMLElement>("[title]")) || undefined;

/** Put the definition below its element, above it where there is no room below. */
function place(shown: HTMLElement | null, of: HTMLElement): void {
  if (!shown) return;
  const at = of.getBoundingClientRect(), { width, height } = shown.getBoundingClientRect();
  shown.style.left = `${Math.max(GAP, Math.min(at.left, innerWidth - width - GAP))}px`;
  shown.style.top = `${at.bottom + GAP + height <= innerHeight ? at.bottom + GAP : Math.max(GAP, at.top - GAP - height)}px`;
}

export function Hints() {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const show = (of: HTMLElement | undefined, viaTap: boolean) => (hint.value = of?.title ? { text: of.title, of, viaTap } : undefined);
    const listening = new AbortController(), { signal: until } = listening;
    addEventListener("focusin", ({ target }) => show(target instanceof Element && target.matches(":focus-visible") ? titled(target) : undefined, false), { signal: until });
    addEventListener("focusout", () => hint.value?.viaTap || show(undefined, false), { signal: until });
    let pointer = "";
    addEventListener("pointerdown", ({ pointerType }) => {
      pointer = pointerType; // a click is not a PointerEvent in every browser
      show(undefined, false);
    }, { signal: until, capture: true });
    // A tap on a button or link acts; a tap on anything else with a definition shows it.
    addEventListener("click", (event) => {
      const tapped = pointer === "touch" ? titled(event.target) : undefined;
      if (tapped && !tapped.closest("a, button, input, select, label, summary")) show(tapped, true);
    }, { signal: until });
    addEventListener("keydown", ({ key }) => key === "Escape" && show(undefined, false), { signal: until });
    // The keyboard scrolls an element into view after it has the focus.
    addEventListener("scroll", () => {
      if (!hint.value) return;
      const { top, bottom } = hint.value.of.getBoundingClientRect();
      if (bottom < 0 || top > innerHeight) show(undefined, false);
      else place(box.current, hint.value.of);
    }, { signal: until, capture: true, passive: true });
    return () => listening.abort();
  }, []);
  useLayoutEffect(() => {
    const shown = hint.value;
    if (!shown) return;
    if (!box.current?.matches(":popover-open")) box.current?.showPopover();
    place(box.current, shown.of);
    const changes = new MutationObserver(() => {
      if (!shown.of.isConnected || !shown.of.title) hint.value = undefined;
      else if (shown.of.title !== shown.text) hint.value = { ...shown, text: shown.of.title };
    });
    changes.observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["title"] });
    return () => changes.disconnect();
  }, [hint.value]);
  // A popover lies above modal dialogs. Screen readers read the title itself.
  return hint.value ? <div class="hint" ref={box} popover="manual" aria-hidden="true" data-hint>{hint.value.text}</div> : null;
}
