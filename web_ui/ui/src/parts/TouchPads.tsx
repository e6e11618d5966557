/** Touch pads for phones and tablets: each moves two actions of the robot that is taken over. */

import { KEYS, touch } from "../handControl";

export function TouchPads({ actions }: { actions: string[] }) {
  const pads = Math.ceil(Math.min(actions.length, KEYS.length) / 2);
  return (
    <div class="touch-pads">
      {Array.from({ length: pads }, (_, index) => <TouchPad key={index} across={2 * index} names={actions.slice(2 * index, 2 * index + 2)} />)}
    </div>
  );
}

/** Right is more of the first action, up is more of the second. Lifting the finger sets both to zero. */
function TouchPad({ across, names }: { across: number; names: string[] }) {
  const move = (event: PointerEvent) => {
    const pad = event.currentTarget as HTMLElement;
    if (!pad.hasPointerCapture(event.pointerId)) return;
    const box = pad.getBoundingClientRect();
    const x = clip((2 * (event.clientX - box.left)) / box.width - 1), y = clip(1 - (2 * (event.clientY - box.top)) / box.height);
    touch(across, x);
    if (names.length > 1) touch(across + 1, y);
    pad.style.setProperty("--x", `${50 + 50 * x}%`);
    pad.style.setProperty("--y", `${50 - (names.length > 1 ? 50 * y : 0)}%`);
  };
  const lift = (event: PointerEvent) => {
    const pad = event.currentTarget as HTMLElement;
    touch(across, 0);
    if (names.length > 1) touch(across + 1, 0);
    pad.style.setProperty("--x", "50%");
    pad.style.setProperty("--y", "50%");
  };
  return (
    <figure>
      <div class="touch-pad" role="img" aria-label={`Touch pad: ${names.join(" to the right, ")}${names.length > 1 ? " up" : " to the right"}`}
        onPointerDown={(event) => { (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId); move(event); }}
        onPointerMove={move} onPointerUp={lift} onPointerCancel={lift} onLostPointerCapture={lift} onContextMenu={(event) => event.preventDefault()}>
        <i aria-hidden="true" />
      </div>
      <figcaption class="small soft">→ {names[0]}{names[1] && <><br />↑ {names[1]}</>}</figcaption>
    </figure>
  );
}

const clip = (value: number): number => Math.max(-1, Math.min(1, value));
