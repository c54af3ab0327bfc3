/** Is what is found the same as what was told before? Pure. */
import type { Finding } from '@flynn/host-agent/doctor/finding';
import { unseenMatter } from './unseen.ts';

/** Of the text of what is told. */
export const maxTextLength = 500;

type KeyParts = Pick<Finding, 'check' | 'subject' | 'severity' | 'app' | 'isAway' | 'matter'>;

/** What it is about, and how grave: its text changes while it lasts. That a host is away is apart from what else is of hosts. */
export function keyOf({ check, subject, severity, app, isAway, matter }: KeyParts): string {
  const which = `${isAway === true ? ' away' : ''}${matter === undefined ? '' : ` (${matter})`}`;
  return `${severity} ${check}${which} ${subject}${app === undefined ? '' : ` ${app}`}`;
}

type Known = KeyParts & Readonly<{ text: string }>;

/**
 * By the keys of what is open. An agent or a controller of a version before does not tell which matter it is: that is the one
 * of which the text is the same, or else any.
 */
export function asOpen(
  found: ReadonlyMap<string, Finding>,
  open: Readonly<Record<string, Known>>,
): Map<string, Finding> {
  const left = new Map(Object.entries(open).filter(([key]) => !found.has(key)));
  const same = new Map<string, string>();
  const pair = (isSame: (one: Known, finding: Finding) => boolean): void => {
    for (const [key, finding] of found) {
      if (key in open || same.has(key)) continue;
      const [known] = [...left].find(([, one]) => isLike(one, finding) && isSame(one, finding)) ?? [];
      if (known === undefined) continue;
      same.set(key, known);
      left.delete(known);
    }
  };
  pair(({ text }, { what }) => shapeOf(text) === shapeOf(what));
  pair(() => true);
  return new Map([...found].map(([key, finding]) => [same.get(key) ?? key, finding]));
}

/** What is unseen is of no version before. */
function isLike(one: KeyParts, other: KeyParts): boolean {
  const isOfBefore = (one.matter === undefined) !== (other.matter === undefined);
  const isUnseen = one.matter === unseenMatter || other.matter === unseenMatter;
  return isOfBefore && !isUnseen && withoutMatter(one) === withoutMatter(other);
}

function withoutMatter(one: KeyParts): string {
  return keyOf({ ...one, matter: undefined });
}

/** Numbers come and go. */
function shapeOf(text: string): string {
  return text.slice(0, maxTextLength).replaceAll(/[\d.,]+/g, '');
}
