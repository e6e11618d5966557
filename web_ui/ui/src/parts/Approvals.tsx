import type { FleetDocument } from "../types";
export function Approvals(_: { now: FleetDocument }) {
  return null;
}
