/** Is what is found the same as what was told before? Pure. */
import type { Finding } from '@flynn/host-agent/doctor/finding';
import { unseenMatter } from './unseen.ts';

/** Of the text of what is told. */
export const maxTextLength = 500;

export type KeyParts = Pick<Finding, 'check' | 'subject' | 'severity' | 'app' | 'isAway' | 'matter'>;

/** What it is about, and how grave: its text changes while it lasts. That a host is away is apart from what else is of hosts. */
export function keyOf({ check, subject, severity, app, isAway, matter }: KeyParts): string {
  const which = `${isAway === true ? ' away' : ''}${matter === undefined ? '' : ` (${matter})`}`;
  return `${severity} ${check}${which} ${subject}${app === undefined ? '' : ` ${app}`}`;
}

type Told = KeyParts & Readonly<{ text: string } | { what: string }>;
type IsSame = (one: Told, other: Told) => boolean;

const isAsGrave: IsSame = (one, other) => one.severity === other.severity;
const isOfShape: IsSame = (one, other) => shapeOf(one) === shapeOf(other);
/** What is most likely the same first. */
const likenesses: readonly IsSame[] = [
  (one, other) => isAsGrave(one, other) && isOfShape(one, other),
  isOfShape,
  isAsGrave,
];

/**
 * An agent or a controller of a version before does not tell which matter it is: it takes on that of the other of which the
 * text is the same, or else of any. Each is taken once, and none where another tells without it too. `nameOf`: what tells
 * them apart.
 */
export function withMatters<T extends Told>(
  all: readonly T[],
  others: readonly Told[],
  nameOf: (parts: KeyParts) => string,
): T[] {
  const known = new Set(all.map(nameOf));
  const blurred = new Set(others.filter(isBlurred).map(nameOf));
  const sharp = Map.groupBy(others.filter(isSharp), placeOf);
  const taken = [...all];
  for (const isSame of likenesses) {
    for (const [at, one] of taken.entries()) {
      if (!isBlurred(one) || blurred.has(nameOf(one))) continue;
      const asOther = ({ matter }: Told) => ({ ...one, matter });
      const other = sharp.get(placeOf(one))?.find((each) => isSame(one, each) && !known.has(nameOf(asOther(each))));
      if (other === undefined) continue;
      taken[at] = asOther(other);
      known.add(nameOf(taken[at]));
    }
  }
  return taken;
}

/** Of which it is not known whether they are gone: their matter may be among what is told without any. */
export function hiddenBy(found: readonly KeyParts[]): (one: KeyParts) => boolean {
  const blurred = new Set(found.filter(isBlurred).map(placeOf));
  return (one) => isSharp(one) && blurred.has(placeOf(one));
}

function isBlurred({ matter }: KeyParts): boolean {
  return matter === undefined;
}

/** What is unseen is of no version before. */
function isSharp({ matter }: KeyParts): boolean {
  return matter !== undefined && matter !== unseenMatter;
}

function placeOf(one: KeyParts): string {
  return keyOf({ ...one, severity: 'warning', matter: undefined });
}

/** Numbers come and go. */
function shapeOf(one: Told): string {
  const text = 'text' in one ? one.text : one.what;
  return text.slice(0, maxTextLength).replaceAll(/[\d.,]+/g, '');
}
