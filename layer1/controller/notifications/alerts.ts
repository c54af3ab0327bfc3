/** What the doctor finds, as it is told: that it began, that it lasts, that it is over. */
import { severities } from '@flynn/host-agent/doctor/finding';
import { z } from 'zod';
import { hiddenBy, withMatters } from '../health/event-keys.ts';
import { idOf, subjectSchema } from './message.ts';
import type { EventType, FindingGroup, Message, Subject } from './message.ts';

/** What passes within this is not told; what is back within that has not ended. */
export const settle = { beginMs: 60_000, endMs: 5 * 60_000 } as const;
const repeatMs = 24 * 3_600_000;
/** Whoever looks how the cluster is does so every minute; one that looks anew, and as far from now, has another clock. */
export const blindMs = 5 * 60_000;

export const alertSchema = z.object({
  check: z.string(),
  /** The worst that was told, or is to be. */
  severity: z.enum(severities),
  subject: z.string(),
  app: z.string().optional(),
  isAway: z.literal(true).optional(),
  matter: z.string().optional(),
  text: z.string(),
  remedy: z.string().optional(),
  /** When it was first seen: with what it is of this makes the ids of its messages. Milliseconds since the epoch, as all here. */
  seenMs: z.number(),
  /** Since when it is not seen any more. */
  missingMs: z.number().optional(),
  /** When it was told, and last told again. Of one that is not there: it may yet pass. */
  toldMs: z.number().optional(),
  repeatedMs: z.number().optional(),
});
export type Alert = Readonly<z.output<typeof alertSchema>>;

type Open = Pick<Alert, 'check' | 'severity' | 'subject' | 'app' | 'isAway' | 'matter' | 'text' | 'remedy'>;

/** What is wrong, and when somebody last looked. */
export type Looked = Readonly<{ lookedMs: number; open: readonly Open[] }>;

/** Of what was found, and of what was told of it so far. Pure. */
export function planAlerts(
  told: Readonly<Record<string, Alert>>,
  { lookedMs, open: wrong }: Looked,
  now: number,
  room: number,
): { next: Record<string, Alert>; messages: Message[] } {
  const isBlind = now - lookedMs >= blindMs;
  const before = withMatters(Object.values(told), wrong, alertKey);
  const sharp = withMatters(wrong, before, alertKey);
  const open = openOf(isBlind ? [...sharp, blindFinding(lookedMs)] : sharp);
  const alerts = new Map(before.map((alert): [string, Alert] => [alertKey(alert), alert]));
  const isHidden = hiddenBy([...open.values()]);
  const away = new Set([...open.values()].flatMap(({ isAway, subject }) => (isAway === true ? [subject] : [])));
  // Nobody knows what ended while nobody looks, nor of a host that is away what else ended there.
  const mayEnd = (alert: Alert): boolean =>
    !isBlind && !isHidden(alert) && (alert.isAway === true || !away.has(alert.subject));
  const gravest = (key: string): number => ((open.get(key) ?? alerts.get(key))?.severity === 'critical' ? 0 : 1);
  const keys = [...new Set([...alerts.keys(), ...open.keys()])].toSorted((a, b) => gravest(a) - gravest(b));
  const next: Record<string, Alert> = {};
  const messages: Message[] = [];
  for (const key of keys) {
    const found = open.get(key);
    const known = alerts.get(key);
    const stepped =
      found !== undefined
        ? stepFound(key, found, known, now)
        : known === undefined
          ? {}
          : stepMissing(known, { mayEnd: mayEnd(known), now });
    const isTold = stepped.message === undefined || messages.length < room;
    const alert = isTold ? stepped.alert : known;
    if (alert !== undefined) next[key] = alert;
    if (isTold && stepped.message !== undefined) messages.push(stepped.message);
  }
  return { next, messages };
}

type Stepped = { alert?: Alert; message?: Message };

function stepFound(key: string, found: Open, known: Alert | undefined, now: number): Stepped {
  if (known === undefined) return { alert: { ...found, seenMs: now } };
  const { missingMs: _back, ...before } = known;
  const isWorse = known.toldMs !== undefined && known.severity === 'warning' && found.severity === 'critical';
  const severity = known.severity === 'critical' && known.toldMs !== undefined ? 'critical' : found.severity;
  const alert = { ...before, ...found, severity };
  if (alert.toldMs === undefined || isWorse) {
    if (now - alert.seenMs < settle.beginMs) return { alert };
    return {
      alert: { ...alert, toldMs: now, repeatedMs: now },
      message: alertMessage(key, alert, 'began', { at: now, mark: severity }),
    };
  }
  if (now - (alert.repeatedMs ?? alert.toldMs) < repeatMs) return { alert };
  return {
    alert: { ...alert, repeatedMs: now },
    message: alertMessage(key, alert, 'lasts', { at: now, mark: String(alert.repeatedMs) }),
  };
}

function stepMissing(known: Alert, { mayEnd, now }: { mayEnd: boolean; now: number }): Stepped {
  if (!mayEnd) {
    const { missingMs: _unknown, ...alert } = known;
    return { alert };
  }
  const missingMs = known.missingMs ?? now;
  if (now - missingMs < settle.endMs) return { alert: { ...known, missingMs } };
  if (known.toldMs === undefined) return {};
  return { message: alertMessage(alertKey(known), known, 'ended', { at: missingMs, mark: '' }) };
}

/** Of the same thing the worst: that it is less grave than it was is not its end. */
function openOf(all: readonly Open[]): Map<string, Open> {
  const open = new Map<string, Open>();
  for (const { check, severity, subject, app, isAway, matter, text, remedy } of all) {
    const one = {
      check,
      severity,
      subject,
      ...(app === undefined ? {} : { app }),
      ...(isAway === undefined ? {} : { isAway }),
      ...(matter === undefined ? {} : { matter }),
      text,
      ...(remedy === undefined ? {} : { remedy }),
    };
    const key = alertKey(one);
    if (open.get(key)?.severity !== 'critical') open.set(key, one);
  }
  return open;
}

/** A host that is away is another matter than what the same check finds on it. */
function alertKey({ check, subject, app, isAway, matter }: Omit<Open, 'severity' | 'text' | 'remedy'>): string {
  const which = `${isAway === true ? ' away' : ''}${matter === undefined ? '' : ` (${matter})`}`;
  return `${check}${which} ${subject}${app === undefined ? '' : ` ${app}`}`;
}

/** Whoever would tell of what is wrong is not heard of: the workers are the ones to tell that. */
function blindFinding(lookedMs: number): Open {
  return {
    check: 'controller',
    severity: 'critical',
    subject: 'the controller',
    text: `nobody looks how the cluster is: the last look was at ${new Date(lookedMs).toISOString()}`,
    remedy: 'flynn-host doctor and flynn-host ps on a host: does a job of controller web run there?',
  };
}

type Phase = 'began' | 'lasts' | 'ended';

const typesOf: Readonly<Record<FindingGroup, Readonly<Record<Phase, EventType>>>> = {
  finding: { began: 'finding.began', lasts: 'finding.lasts', ended: 'finding.ended' },
  host: { began: 'host.lost', lasts: 'host.lasts', ended: 'host.back' },
  backup: { began: 'backup.failed', lasts: 'backup.lasts', ended: 'backup.recovered' },
  certificate: { began: 'certificate.failed', lasts: 'certificate.lasts', ended: 'certificate.recovered' },
  app: { began: 'app.failing', lasts: 'app.lasts', ended: 'app.recovered' },
};

function alertMessage(key: string, alert: Alert, phase: Phase, { at, mark }: { at: number; mark: string }): Message {
  const { severity, subject, text, remedy, seenMs } = alert;
  const about = subjectOf(subject);
  const app = alert.app ?? (about.kind === 'app' || about.kind === 'database' ? about.name : undefined);
  const named = alert.app === undefined ? subject : `${alert.app} on ${subject}`;
  const titles = {
    began: `${named}: ${text}`,
    lasts: `still: ${named}: ${text}`,
    ended: `over: ${named}`,
  };
  return {
    id: idOf('alert', key, String(seenMs), phase, mark),
    type: typesOf[groupOf(alert)][phase],
    about: `alert ${key}`,
    at: new Date(at).toISOString(),
    severity,
    subject: alert.app === undefined ? about : { kind: 'app', name: alert.app },
    ...(app === undefined ? {} : { app }),
    title: shortened(titles[phase]),
    text: phase === 'ended' ? `this is no longer so: ${text}` : text,
    ...(phase === 'ended' || remedy === undefined ? {} : { todo: remedy }),
    since: new Date(seenMs).toISOString(),
  };
}

/** By the check that found it. */
function groupOf({ check, app, isAway, subject }: Alert): FindingGroup {
  if (isAway === true) return 'host';
  if (check === 'backups' || check === 'databases') return 'backup';
  if (check === 'certificates') return 'certificate';
  const isOfApp = app !== undefined || subject.startsWith('app ');
  return isOfApp && (check === 'drift' || check === 'work') ? 'app' : 'finding';
}

/** Findings name what they are about as people read it: `host h1`, `app shop (web)`, `database db`. */
function subjectOf(text: string): Subject {
  const [, sort, name = ''] = /^(\w+) (\S+)/.exec(text) ?? [];
  const kind = subjectSchema.shape.kind.safeParse(sort).data;
  return kind === undefined ? { kind: 'component', name: text } : { kind, name };
}

const maxTitle = 160;

function shortened(text: string): string {
  return text.length > maxTitle ? `${text.slice(0, maxTitle)}…` : text;
}
