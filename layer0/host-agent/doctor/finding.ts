/** What a check finds wrong, for people and for programs, and how checks are carried out. */
import { messageOf } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';

/** `critical`: something does not work, or is about to stop. `warning`: somebody has to see to it. */
export const severities = ['warning', 'critical'] as const;

export const findingSchema = z.object({
  /** The check that found it. */
  check: z.string(),
  severity: z.enum(severities),
  /** What it is about: `host h1`, `etcd`, `app blog`. */
  subject: z.string(),
  /** The app it is about, by its name, where the subject is another: a host on which jobs of it crash. */
  app: z.string().optional(),
  /** That a host is lost, or cannot be asked. */
  isAway: z.literal(true).optional(),
  /** Which it is, by a word that does not change, where a check finds several things wrong of one subject. */
  matter: z.string().optional(),
  /** What is so. */
  what: z.string(),
  /** Since when, ISO 8601: known, or when it was first seen. */
  since: z.string().optional(),
  /** Why it matters. */
  why: z.string(),
  /** What to do about it; a command where there is one. */
  remedy: z.string(),
});
export type Finding = z.output<typeof findingSchema>;

/** A check that could not be carried out is no good news either. */
export const unknownSchema = z.object({ check: z.string(), subject: z.string(), why: z.string() });
export type Unknown = z.output<typeof unknownSchema>;

export const verdictSchema = z.object({ findings: z.array(findingSchema), unknown: z.array(unknownSchema) });
export type Verdict = z.output<typeof verdictSchema>;

/** What a check answers: its own name is put to it. */
export type Found = Omit<Finding, 'check'>;

export type Check = Readonly<{
  name: string;
  /** Heeds the signal, or is left behind by it. */
  find: (signal: AbortSignal) => Promise<readonly Found[]> | readonly Found[];
}>;

/** What is left of somebody's patience for the next in line, so that what is known by then still gets back in time. */
export function lessThan(patienceMs: number): number {
  return Math.floor(Math.max(patienceMs * 0.6, patienceMs - 100));
}

/** All at once. One that fails, or takes longer than the deadline, is told as unknown; the others are not held up. */
export async function examine(
  checks: readonly Check[],
  options: { subject: string; deadlineMs: number; signal: AbortSignal },
): Promise<Verdict> {
  const { subject, deadlineMs } = options;
  const signal = withDeadline(deadlineMs, options.signal);
  const verdicts = await Promise.all(
    checks.map(async ({ name, find }): Promise<Verdict> => {
      try {
        const found = await raceAbort(attempt(find, signal), signal);
        return { findings: found.map((one) => Object.assign({ check: name }, one)), unknown: [] };
      } catch (error) {
        options.signal.throwIfAborted();
        const why = signal.aborted ? `no answer within ${deadlineMs / 1_000} s` : messageOf(error);
        return { findings: [], unknown: [{ check: name, subject, why }] };
      }
    }),
  );
  return together(verdicts);
}

async function attempt(find: Check['find'], signal: AbortSignal): Promise<readonly Found[]> {
  return find(signal);
}

/** Worst first, then by what they are about. */
export function together(verdicts: readonly Verdict[]): Verdict {
  const rank = ({ severity, subject }: Finding) => `${severity === 'critical' ? 0 : 1} ${subject}`;
  return {
    findings: verdicts.flatMap(({ findings }) => findings).toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1)),
    unknown: verdicts.flatMap(({ unknown }) => unknown),
  };
}

export const healths = ['ok', 'warning', 'critical'] as const;
export type Health = (typeof healths)[number];

/** What could not be found out is a warning: it may hide anything. */
export function healthOf({ findings, unknown }: Verdict): Health {
  if (findings.some(({ severity }) => severity === 'critical')) return 'critical';
  return findings.length + unknown.length > 0 ? 'warning' : 'ok';
}

/** 0: all is well. 1: it works, somebody has to see to something. 2: something does not work. */
export function exitCodeOf(health: Health): number {
  return healths.indexOf(health);
}

/** Remembers since when something is so, for checks that only see that it is. Numbers in a text come and go. */
export class Sightings {
  #known = new Map<string, Finding & { since: string }>();

  /** Findings with `since`; what is not among them any more is forgotten, where its check was carried out. */
  dated(findings: readonly Finding[], now: number, wasCarriedOut: (check: string) => boolean = () => true): Finding[] {
    const dated = this.recalled(findings, now);
    const unseen = [...this.#known].filter(([, { check }]) => !wasCarriedOut(check));
    this.#known = new Map([...unseen, ...dated.map((one) => [keyOf(one), one] as const)]);
    return dated;
  }

  /** The same of a look that need not have seen all: nothing is remembered, nothing forgotten. */
  recalled(findings: readonly Finding[], now: number): (Finding & { since: string })[] {
    const since = new Date(now).toISOString();
    return findings.map((one) => ({ ...one, since: one.since ?? this.#known.get(keyOf(one))?.since ?? since }));
  }
}

function keyOf({ check, subject, what }: Finding): string {
  return `${check} ${subject} ${what.replaceAll(/[\d.,]+/g, '')}`;
}
