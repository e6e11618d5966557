/** Heads of number columns and names of values, each with its definition on hover. `?` lists those in view, for the keyboard. */

import type { ComponentChildren } from "preact";
import { meaning, type Term, TERMS } from "../terms";

/** What any other element needs to be listed by `?`: its name, and its definition on hover. */
export const defined = (of: Term) => ({ title: TERMS[of], "data-term": of });
/** The head of a column of numbers. */
export const Th = ({ of, children }: { of: Term; children?: ComponentChildren }) => <th class="right" title={TERMS[of]}>{children ?? of}</th>;
/** The name of a value. A name that is not fixed, such as one of a sensor, has no definition. */
export const Dt = ({ of }: { of: Term }) => <dt title={TERMS[of]}>{of}</dt>;
export const NamedDt = ({ name }: { name: string }) => <dt title={meaning(name)}>{name}</dt>;
