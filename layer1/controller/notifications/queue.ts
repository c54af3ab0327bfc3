/**
 * What waits to be sent to one receiver, and what became of the last messages. Pure: it is the status of the notification, and
 * every change of it one transaction.
 *
 * INVARIANTS. A message waits until the receiver said that it has it, or the log says what became of it instead. One with an
 * id that waits or is in the log is not taken in a second time. Messages go out in their order, but for what is overtaken, and
 * for one that is refused again and again: the others go first. The last heartbeat has a lane of its own, in which no message
 * holds it up. That messages were lost stays told for a day, or until a test is accepted.
 */
import { z } from 'zod';
import { dueInMs } from '../clocks/due.ts';
import { idOf, messageSchema } from './message.ts';
import type { Message } from './message.ts';

/** More wait for nobody: the least grave are dropped, of those the oldest. One message in their place tells how many. */
export const maxWaiting = 50;
/** Whose oldest message has waited for longer does not keep up: nobody else waits for it. */
const behindMs = 2 * 60_000;
const gravity = { info: 0, warning: 1, critical: 2 } as const;
const crowd = 'dropped';
/** After so many tries the others go first. */
const headTries = 4;
/** All that waits and all of one look, which may be put in a second time: by the log it is known. */
const maxLog = 2 * maxWaiting;
const maxAnswerLength = 300;
/** How long a message is tried; a heartbeat is of no use once the next is due. */
const deadlineMs = 24 * 3_600_000;
/** How long it is told that something was lost. */
const lostMs = 24 * 3_600_000;
const maxRetryAfterMs = 3_600_000;
const backoff = { firstMs: 5_000, mostMs: 30 * 60_000, growth: 3 } as const;
/** What these answers say of a message is true of the same one later. */
const refusedForGood: ReadonlySet<number> = new Set([400, 413, 415, 422]);
/** A heartbeat is tried often: its receiver waits for it. */
const beatPauseMs = { first: 5_000, most: 60_000 } as const;
const longestPauseMs = Math.max(maxRetryAfterMs, backoff.mostMs, beatPauseMs.most);

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

const waitingSchema = messageSchema.extend({
  queuedMs: z.number(),
  expiresMs: z.number(),
  attempts: z.int().default(0),
  /** How many were dropped, of the one that tells it. */
  stands: z.int().optional(),
});

export const queueSchema = z.object({
  waiting: z.array(waitingSchema),
  /** The last heartbeat, until the receiver has it. */
  beat: waitingSchema.extend({ nextMs: z.number() }).optional(),
  /** The newest first. */
  log: z.array(logEntrySchema),
  /** While the receiver takes nothing. */
  failing: z.object({ since: z.string(), count: z.int(), answer: z.string(), nextMs: z.number() }).optional(),
  /** What it never got, within a day. */
  lost: z.object({ at: z.string(), count: z.int(), answer: z.string().optional() }).optional(),
  /** When the last heartbeat was due. */
  heartbeatMs: z.number().optional(),
  /** It came from a backup, and the cluster that was may live yet: its pulse is not sent until a test is accepted. */
  isRestored: z.literal(true).optional(),
});
export type Queue = Readonly<z.output<typeof queueSchema>>;
type Waiting = Queue['waiting'][number];

export const emptyQueue: Queue = { waiting: [], log: [] };
/** Of a notification that comes from a backup. */
export const restoredQueue = { waiting: [], log: [], isRestored: true } satisfies Queue;

/** What a receiver said, or why nothing was heard of it. */
export type Answer = Readonly<{ status?: number; text: string; retryAfterMs?: number }>;

export function isAccepted({ status = 0 }: Answer): boolean {
  return status >= 200 && status < 300;
}

/** The same queue if it has the message already. */
export function enqueue(queue: Queue, message: Message, now: number): Queue {
  const isKnown = [...queue.waiting, ...queue.log].some(({ id }) => id === message.id);
  if (isKnown) return queue;
  const overtaken = queue.waiting.filter(({ about }) => about === message.about);
  const left = queue.waiting.filter(({ about }) => about !== message.about);
  const next = { ...queue, waiting: [...left, waitingFrom(message, now, deadlineMs)] };
  return fitting(ended(next, overtaken, 'overtaken', now), now);
}

/** In the place of the one before, which is of no use any more. */
export function enqueueBeat(queue: Queue, message: Message, now: number, everyMs: number): Queue {
  return {
    ...queue,
    heartbeatMs: Date.parse(message.at),
    beat: { ...waitingFrom(message, now, everyMs), nextMs: now },
  };
}

/** How many more messages it has room for; undefined of a receiver that is not waited for, as it takes none or is too slow. */
export function roomIn({ waiting, failing }: Queue, now: number): number | undefined {
  const isBehind = waiting.some(({ about, queuedMs }) => about === crowd || now - queuedMs > behindMs);
  return failing !== undefined || isBehind ? undefined : Math.max(0, maxWaiting - waiting.length);
}

/** Without what waited for too long. */
export function withoutExpired(queue: Queue, now: number): Queue {
  const isLate = ({ expiresMs }: Pick<Waiting, 'expiresMs'>): boolean => expiresMs <= now;
  const expired = queue.waiting.filter(isLate);
  const isBeatLate = queue.beat !== undefined && isLate(queue.beat);
  if (expired.length === 0 && !isBeatLate) return queue;
  const { beat, ...rest } = queue;
  const late = isBeatLate && beat !== undefined ? [...expired, beat] : expired;
  const waiting = queue.waiting.filter((one) => !isLate(one));
  const left = { ...rest, waiting, ...(isBeatLate || beat === undefined ? {} : { beat }) };
  return ended(left, late, 'expired', now, queue.failing?.answer);
}

/** What to send, and in how many milliseconds. A heartbeat that is due goes first. */
export function nextOf({ beat, waiting, failing }: Queue, now: number): { message: Message; inMs: number } | undefined {
  const [head] = waiting;
  const lanes = [
    ...(beat === undefined ? [] : [{ message: beat, inMs: dueInMs(beat.nextMs, now, longestPauseMs) }]),
    ...(head === undefined ? [] : [{ message: head, inMs: dueInMs(failing?.nextMs ?? 0, now, longestPauseMs) }]),
  ];
  return lanes.toSorted((a, b) => a.inMs - b.inMs)[0];
}

/** After it was sent: it may have been overtaken meanwhile. `random` from 0 to 1. */
export function answered(queue: Queue, sent: Message, answer: Answer, now: number, random: number): Queue {
  const known = queue.waiting.find(({ id }) => id === sent.id);
  if (known === undefined && sent.type === 'heartbeat') return answeredBeat(queue, sent, answer, now);
  const waiting = queue.waiting.filter(({ id }) => id !== sent.id);
  if (isAccepted(answer)) {
    const { failing: _failing, ...rest } = queue;
    const attempts = (known?.attempts ?? 0) + 1;
    return withLog({ ...rest, waiting }, [entryOf({ ...sent, attempts }, 'delivered', now, textOf(answer))]);
  }
  if (known !== undefined && refusedForGood.has(answer.status ?? 0)) {
    return ended({ ...queue, waiting }, [tried(known)], 'refused', now, textOf(answer));
  }
  const count = (queue.failing?.count ?? 0) + 1;
  const pauseMs = Math.max(backoffMs(count, random), retryAfterMs(answer));
  const failing = { ...failingFrom(queue, answer, now), count, nextMs: now + pauseMs };
  return { ...queue, waiting: afterTry(queue.waiting, sent), failing };
}

/** It says of the receiver whether that takes anything, and puts off no message. */
function answeredBeat(queue: Queue, sent: Message, answer: Answer, now: number): Queue {
  const { failing, beat, ...rest } = queue;
  const own = beat?.id === sent.id ? tried(beat) : undefined;
  if (isAccepted(answer)) {
    const left = own === undefined && beat !== undefined ? { beat } : {};
    // It is there again: what waits is tried at once.
    const still = failing === undefined || rest.waiting.length === 0 ? {} : { failing: { ...failing, nextMs: now } };
    const entry = entryOf({ ...sent, attempts: own?.attempts ?? 1 }, 'delivered', now, textOf(answer));
    return withLog({ ...rest, ...left, ...still }, [entry]);
  }
  const still = { failing: failingFrom(queue, answer, now) };
  if (own === undefined) return { ...queue, ...still };
  const pauseMs = Math.min(beatPauseMs.first * backoff.growth ** (own.attempts - 1), beatPauseMs.most);
  return { ...queue, ...still, beat: { ...own, nextMs: now + Math.max(pauseMs, retryAfterMs(answer)) } };
}

function failingFrom({ failing }: Queue, answer: Answer, now: number): NonNullable<Queue['failing']> {
  return { since: new Date(now).toISOString(), count: 0, nextMs: now, ...failing, answer: textOf(answer) };
}

/** What the receiver will not have although it was tried for a while holds up no other. */
function afterTry(waiting: readonly Waiting[], { id }: Message): Waiting[] {
  const all = waiting.map((one) => (one.id === id ? tried(one) : one));
  const [head, ...others] = all;
  const isStuck = head?.id === id && head.attempts % headTries === 0;
  return head !== undefined && isStuck ? [...others, head] : all;
}

/** With one message in the place of those that are too many. */
function fitting(queue: Queue, now: number): Queue {
  const told = queue.waiting.find(({ about }) => about === crowd);
  const others = queue.waiting.filter((one) => one !== told);
  const most = told === undefined && others.length <= maxWaiting ? maxWaiting : maxWaiting - 1;
  if (others.length <= most) return queue;
  const order = others.toSorted((a, b) => gravity[a.severity] - gravity[b.severity] || a.queuedMs - b.queuedMs);
  const dropped = new Set(order.slice(0, others.length - most));
  const left = others.filter((one) => !dropped.has(one));
  const next = { ...queue, waiting: [...left, crowdOf(told, [...dropped], now)] };
  return ended(next, [...dropped], 'dropped', now);
}

function crowdOf(before: Waiting | undefined, dropped: readonly Waiting[], now: number): Waiting {
  const count = (before?.stands ?? 0) + dropped.length;
  const worst = dropped.some(({ severity }) => severity === 'critical') || before?.severity === 'critical';
  const message: Message = {
    // Another one with each that it stands for: what was sent before told of less.
    id: idOf('dropped', before?.id ?? '', ...dropped.map(({ id }) => id)),
    type: 'notification.dropped',
    about: crowd,
    at: new Date(now).toISOString(),
    severity: worst ? 'critical' : 'warning',
    subject: { kind: 'cluster', name: 'notifications' },
    title: `${count} more than are sent one by one`,
    text: `${count} more messages were too many to be sent one by one`,
    todo: 'flynn doctor tells all that is wrong now',
  };
  return { ...waitingFrom(message, now, deadlineMs), stands: count };
}

function waitingFrom(message: Message, now: number, patienceMs: number): Waiting {
  return { ...message, queuedMs: now, expiresMs: now + patienceMs, attempts: 0 };
}

/** One that was sent past the queue, because somebody asked. That it was accepted ends what was told of the receiver. */
export function withTest(queue: Queue, message: Message, answer: Answer, now: number): Queue {
  const outcome = isAccepted(answer) ? 'delivered' : 'refused';
  const before = isAccepted(answer) ? anew(queue) : queue;
  return withLog(before, [entryOf({ ...message, attempts: 1 }, outcome, now, textOf(answer))]);
}

/** Of a receiver of which nothing bad is known: what waits is tried at once. */
export function anew({ failing: _failing, lost: _lost, isRestored: _isRestored, ...queue }: Queue): Queue {
  return queue;
}

/** Whether it is still to be told that messages were lost. */
export function isLost({ lost }: Queue, now: number): boolean {
  return lost !== undefined && now - Date.parse(lost.at) < lostMs;
}

function retryAfterMs(answer: Answer): number {
  return Math.min(answer.retryAfterMs ?? 0, maxRetryAfterMs);
}

/** With a fifth of it left to chance. */
function backoffMs(count: number, random: number): number {
  const wholeMs = Math.min(backoff.firstMs * backoff.growth ** (count - 1), backoff.mostMs);
  return Math.round(wholeMs * (1 - 0.2 * random));
}

function tried<T extends Waiting>(one: T): T {
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
  const count = (isLost(queue, now) ? (queue.lost?.count ?? 0) : 0) + lost.length;
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
