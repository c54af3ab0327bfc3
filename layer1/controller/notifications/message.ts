/** What receivers are told: which sorts of events there are, who wants which, and what a message is before it has a format. */
import { createHash } from 'node:crypto';
import { severities } from '@flynn/host-agent/doctor/finding';
import { z } from 'zod';

/** What a message may be of. Names are in two parts, of which the first alone stands for all that begin with it. */
export type EventType =
  | 'finding.began'
  | 'finding.lasts'
  | 'finding.ended'
  | 'host.lost'
  | 'host.lasts'
  | 'host.back'
  | 'backup.failed'
  | 'backup.lasts'
  | 'backup.recovered'
  | 'certificate.failed'
  | 'certificate.lasts'
  | 'certificate.recovered'
  | 'app.failing'
  | 'app.lasts'
  | 'app.recovered'
  | 'deployment.failed'
  | 'deployment.succeeded'
  | 'update.failed'
  | 'update.succeeded'
  | 'heartbeat'
  | 'notification.dropped'
  | 'notification.test';

/** Findings of the doctor that have names of their own; what has none is a `finding`. */
export type FindingGroup = 'finding' | 'host' | 'backup' | 'certificate' | 'app';
const findingGroups: ReadonlySet<string> = new Set<FindingGroup>(['finding', 'host', 'backup', 'certificate', 'app']);

/** What somebody may ask for by `on`. `finding` alone is all that the doctor finds, as far as it is grave enough. */
export const topics = [
  'finding',
  'host',
  'backup',
  'certificate',
  'app',
  'deployment',
  'deployment.failed',
  'deployment.succeeded',
  'update',
  'heartbeat',
] as const;
export type Topic = (typeof topics)[number];

/** What one is told of who says nothing else. */
export const defaultTopics = {
  cluster: ['finding', 'host', 'backup', 'certificate', 'app', 'deployment.failed', 'update'],
  app: ['finding', 'backup', 'certificate', 'app', 'deployment.failed'],
} as const satisfies Record<string, readonly Topic[]>;

export const subjectSchema = z.object({
  kind: z.enum(['app', 'host', 'database', 'certificate', 'component', 'cluster', 'notification']),
  name: z.string(),
});
export type Subject = z.output<typeof subjectSchema>;

export const messageSchema = z.object({
  /** The same whenever it is sent. */
  id: z.string(),
  /** An event's; what a later version has written is handed on as it is. */
  type: z.string(),
  /** What it is of: a later message about the same takes its place while nobody has it yet. */
  about: z.string(),
  /** When it happened, ISO 8601. */
  at: z.string(),
  severity: z.enum(['info', ...severities]),
  subject: subjectSchema,
  /** Its name, where it is of one. */
  app: z.string().optional(),
  title: z.string(),
  text: z.string(),
  todo: z.string().optional(),
  /** Since when it is so, ISO 8601. */
  since: z.string().optional(),
});
export type Message = Readonly<z.output<typeof messageSchema>>;

/** A message and the apps it is of, by their ids: whose receivers get it beside those of the cluster. */
export type Addressed = Readonly<{ message: Message; appIds: readonly string[] }>;

export type Wish = Readonly<{
  appId?: string | undefined;
  on: readonly string[];
  severity: (typeof severities)[number];
}>;

/** Pure. What is asked for by its own name is sent however grave it is. */
export function isWanted({ message, appIds }: Addressed, { appId, on, severity }: Wish): boolean {
  if (appId !== undefined && !appIds.includes(appId)) return false;
  const [group = ''] = message.type.split('.');
  if (on.includes(message.type)) return true;
  if (group !== 'finding' && on.includes(group)) return true;
  if (!findingGroups.has(group) || !on.includes('finding')) return false;
  return severity === 'warning' || message.severity === 'critical';
}

/** An id of a message: the same for the same parts. */
export function idOf(...parts: readonly string[]): string {
  return `msg_${createHash('sha256').update(parts.join('\0')).digest('base64url').slice(0, 27)}`;
}
