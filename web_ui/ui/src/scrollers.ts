/** Boxes that scroll sideways take the keyboard's focus, and only while they scroll. */

let waits = false;

function mark(): void {
  waits = false;
  for (const box of document.querySelectorAll<HTMLElement>(".scroll")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

function soon(): void {
  if (waits) return;
  waits = true;
  setTimeout(mark, 200);
}

new MutationObserver(soon).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", soon);
