/**
 * What waits to be sent to one receiver, and what became of the last messages. Pure: it is the status of the notification, and
 * every change of it one transaction.
 *
 * INVARIANTS. A message waits until the receiver said that it has it, or the log says what became of it instead. One with an
 * id that waits or is in the log is not taken in a second time. Messages go out in their order, but for what is overtaken.
 */
import { z } from 'zod';
import { messageSchema } from './message.ts';
import type { Message } from './message.ts';

/** More wait for nobody: the oldest are dropped, which the log tells. */
export const maxWaiting = 50;
const maxLog = 30;
const maxAnswerLength = 300;
/** How long a message is tried; a heartbeat is of no use once the next is due. */
const deadlineMs = 24 * 3_600_000;
/** How long it is told that something was lost. */
const lostMs = 24 * 3_600_000;
const backoff = { firstMs: 5_000, mostMs: 30 * 60_000, growth: 3 } as const;
/** What these answers say of a message is true of the same one later. */
const refusedForGood: ReadonlySet<number> = new Set([400, 413, 415, 422]);

export const outcomes = ['delivered', 'refused', 'expired', 'overtaken', 'dropped'] as const;

const logEntrySchema = z.object({
  id: z.string(),
  type: z.string(),
  title: z.string(),
  /** When it was so, ISO 8601. */
  at: z.string(),
  outcome: z.enum(outcomes),
  attempts: z.int(),
  /** What the receiver said last. */
  answer: z.string().optional(),
});
export type LogEntry = Readonly<z.output<typeof logEntrySchema>>;

export const queueSchema = z.object({
  waiting: z.array(messageSchema.extend({ queuedMs: z.number(), expiresMs: z.number(), attempts: z.int().default(0) })),
  /** The newest first. */
  log: z.array(logEntrySchema),
  /** While the receiver takes nothing. */
  failing: z.object({ since: z.string(), count: z.int(), answer: z.string(), nextMs: z.number() }).optional(),
  /** What it never got since the last message that it took. */
  lost: z.object({ at: z.string(), count: z.int(), answer: z.string().optional() }).optional(),
  /** When the last heartbeat was due. */
  heartbeatMs: z.number().optional(),
});
export type Queue = Readonly<z.output<typeof queueSchema>>;
type Waiting = Queue['waiting'][number];

export const emptyQueue: Queue = { waiting: [], log: [] };

/** What a receiver said, or why nothing was heard of it. */
export type Answer = Readonly<{ status?: number; text: string; retryAfterMs?: number }>;

export function isAccepted({ status = 0 }: Answer): boolean {
  return status >= 200 && status < 300;
}

/** The same queue if it has the message already. */
export function enqueue(queue: Queue, message: Message, now: number, patienceMs = deadlineMs): Queue {
  const isKnown = [...queue.waiting, ...queue.log].some(({ id }) => id === message.id);
  if (isKnown) return queue;
  const overtaken = queue.waiting.filter(({ about }) => about === message.about);
  const left = queue.waiting.filter(({ about }) => about !== message.about);
  const waiting = [...left, { ...message, queuedMs: now, expiresMs: now + patienceMs, attempts: 0 }];
  const dropped = waiting.slice(0, Math.max(0, waiting.length - maxWaiting));
  const next = { ...queue, waiting: waiting.slice(dropped.length) };
  return ended(ended(next, overtaken, 'overtaken', now), dropped, 'dropped', now);
}

/** Without what waited for too long. */
export function withoutExpired(queue: Queue, now: number): Queue {
  const expired = queue.waiting.filter(({ expiresMs }) => expiresMs <= now);
  if (expired.length === 0) return queue;
  const waiting = queue.waiting.filter(({ expiresMs }) => expiresMs > now);
  return ended({ ...queue, waiting }, expired, 'expired', now, queue.failing?.answer);
}

/** What to send, and in how many milliseconds. */
export function nextOf(queue: Queue, now: number): { message: Waiting; inMs: number } | undefined {
  const [message] = queue.waiting;
  if (message === undefined) return undefined;
  return { message, inMs: Math.max(0, (queue.failing?.nextMs ?? 0) - now) };
}

/** After it was sent: it may have been overtaken meanwhile. `random` from 0 to 1. */
export function answered(queue: Queue, sent: Message, answer: Answer, now: number, random: number): Queue {
  const isThere = queue.waiting.some(({ id }) => id === sent.id);
  if (isAccepted(answer)) {
    const { failing: _failing, lost: _lost, ...rest } = queue;
    const waiting = queue.waiting.filter(({ id }) => id !== sent.id);
    const attempts = (queue.waiting.find(({ id }) => id === sent.id)?.attempts ?? 0) + 1;
    return withLog({ ...rest, waiting }, [entryOf({ ...sent, attempts }, 'delivered', now, textOf(answer))]);
  }
  if (isThere && refusedForGood.has(answer.status ?? 0)) {
    const waiting = queue.waiting.filter(({ id }) => id !== sent.id);
    const refused = queue.waiting.filter(({ id }) => id === sent.id).map(tried);
    return ended({ ...queue, waiting }, refused, 'refused', now, textOf(answer));
  }
  const count = (queue.failing?.count ?? 0) + 1;
  const pauseMs = Math.max(backoffMs(count, random), Math.min(answer.retryAfterMs ?? 0, backoff.mostMs));
  return {
    ...queue,
    waiting: queue.waiting.map((one) => (one.id === sent.id ? tried(one) : one)),
    failing: {
      since: queue.failing?.since ?? new Date(now).toISOString(),
      count,
      answer: textOf(answer),
      nextMs: now + pauseMs,
    },
  };
}

/** One that was sent past the queue, because somebody asked. */
export function withTest(queue: Queue, message: Message, answer: Answer, now: number): Queue {
  const outcome = isAccepted(answer) ? 'delivered' : 'refused';
  return withLog(queue, [entryOf({ ...message, attempts: 1 }, outcome, now, textOf(answer))]);
}

/** Whether it is still to be told that messages were lost. */
export function isLost({ lost }: Queue, now: number): boolean {
  return lost !== undefined && now - Date.parse(lost.at) < lostMs;
}

/** With a fifth of it left to chance. */
function backoffMs(count: number, random: number): number {
  const wholeMs = Math.min(backoff.firstMs * backoff.growth ** (count - 1), backoff.mostMs);
  return Math.round(wholeMs * (1 - 0.2 * random));
}

function tried(one: Waiting): Waiting {
  return { ...one, attempts: one.attempts + 1 };
}

/** Heartbeats that did not come are what their receiver is for: nothing was lost. */
function ended(
  queue: Queue,
  messages: readonly Waiting[],
  outcome: 'refused' | 'expired' | 'overtaken' | 'dropped',
  now: number,
  answer?: string,
): Queue {
  if (messages.length === 0) return queue;
  const next = withLog(
    queue,
    messages.map((one) => entryOf(one, outcome, now, answer)),
  );
  const lost = outcome === 'overtaken' ? [] : messages.filter(({ type }) => type !== 'heartbeat');
  if (lost.length === 0) return next;
  const count = (queue.lost?.count ?? 0) + lost.length;
  return { ...next, lost: { at: new Date(now).toISOString(), count, ...(answer === undefined ? {} : { answer }) } };
}

/** Of heartbeats the last alone: they would leave room for nothing else. */
function withLog(queue: Queue, entries: readonly LogEntry[]): Queue {
  const isBeat = ({ type }: LogEntry): boolean => type === 'heartbeat';
  const before = entries.some(isBeat) ? queue.log.filter((one) => !isBeat(one)) : queue.log;
  return { ...queue, log: [...entries.toReversed(), ...before].slice(0, maxLog) };
}

function entryOf(
  { id, type, title, attempts }: Pick<Waiting, 'id' | 'type' | 'title' | 'attempts'>,
  outcome: LogEntry['outcome'],
  now: number,
  answer: string | undefined,
): LogEntry {
  const at = new Date(now).toISOString();
  return { id, type, title, at, outcome, attempts, ...(answer === undefined ? {} : { answer }) };
}

function textOf({ status, text }: Answer): string {
  const said = status === undefined ? text : `${status} ${text}`.trimEnd();
  return said.length > maxAnswerLength ? `${said.slice(0, maxAnswerLength)}…` : said;
}
