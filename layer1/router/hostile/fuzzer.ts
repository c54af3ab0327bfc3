/** Messages without end against a router and other readers of HTTP/1, and what they did not agree on. */
import { METHODS } from 'node:http';
import { systemClock } from '@flynn/kit/clock';
import { hostLine } from './corpus-parts.ts';
import { difference } from './differ.ts';
import { isRefusal } from './judge.ts';
import type { Judge, Opinion, Taken } from './judge.ts';
import { nextMessage, randomFrom, requestSeeds } from './mutate.ts';
import type { Recorded, Recorder } from './recorder.ts';
import { talk } from './talk.ts';
import { readRequests } from './wire.ts';
import type { ReadRequest } from './wire.ts';

/** A router in front of a recording backend that nobody else uses. */
export type Subject = { readonly port: number; readonly recorder: Recorder };

export type Finding = { kind: string; message: string };

export type FuzzReport = {
  messages: number;
  /** Of these the router passed something on. */
  passedOn: number;
  findings: readonly Finding[];
  /** Passed on, and refused by another: how often, by whom. */
  laxer: Readonly<Record<string, number>>;
};

/** Behind every message: who takes it for part of that, or that for part of it, has split it differently. */
const sentinel = `GET /sentinel HTTP/1.1\r\n${hostLine}Connection: close\r\n\r\n`;
const maxFindings = 1_000;
/** How long nothing has to come from somebody to take it that they wait for more. */
const waits = { quickMs: 60, patientMs: 2_000, betweenMs: 300 } as const;
const confirmations = 3;

/** Without judges it still finds what a backend could read in two ways. */
export async function fuzz(options: {
  subject: Subject;
  judges: readonly Judge[];
  seed: number;
  isOver: (messages: number) => boolean;
}): Promise<FuzzReport> {
  const { subject, judges, seed, isOver } = options;
  const random = randomFrom(seed);
  const findings: Finding[] = [];
  const laxer: Record<string, number> = {};
  let messages = 0;
  let passedOn = 0;
  while (!isOver(messages)) {
    const message = nextMessage(random, requestSeeds);
    messages += 1;
    const first = await examine(subject, judges, message, waits.quickMs);
    if (first.isPassedOn) passedOn += 1;
    for (const name of first.laxerThan) laxer[name] = (laxer[name] ?? 0) + 1;
    if (first.kinds.length === 0 || findings.length >= maxFindings) continue;
    const kinds = await confirmed(subject, judges, message);
    findings.push(...kinds.map((kind) => ({ kind, message })));
  }
  return { messages, passedOn, findings, laxer };
}

/** On a busy machine somebody may only have been slow, or have heard late of the message before: what is so is so every time. */
async function confirmed(subject: Subject, judges: readonly Judge[], message: string): Promise<string[]> {
  let kinds: string[] = [];
  for (let left = confirmations; left > 0; left -= 1) {
    await systemClock.sleep(waits.betweenMs);
    subject.recorder.take();
    ({ kinds } = await examine(subject, judges, message, waits.patientMs));
    if (kinds.length === 0) break;
  }
  return kinds;
}

type Examined = { kinds: string[]; isPassedOn: boolean; laxerThan: string[] };

async function examine(
  subject: Subject,
  judges: readonly Judge[],
  message: string,
  quietMs: number,
): Promise<Examined> {
  const said = message + sentinel;
  const [ours, ...opinions] = await Promise.all([
    ask(subject, said, quietMs),
    ...judges.map((judge) => judge.read(said, quietMs)),
  ]);
  const { requests, bytes, problems } = ours.recorded;
  const kinds = problems.map((problem) => `the backend got ${problem}`);
  const laxerThan: string[] = [];
  if (requests.some((request) => !isMarked(request))) kinds.push('the backend got what the router never saw');
  const isPassedOn = requests.some((request) => !isSentinel(request));
  if (!isPassedOn) return { kinds, isPassedOn, laxerThan };
  for (const [index, { name }] of judges.entries()) {
    const theirs = opinions[index];
    const kind = theirs === undefined || !isComparable(ours) ? undefined : difference(ours.opinion, theirs);
    if (kind === 'split') kinds.push(`${name} would have split it differently`);
    else if (kind === 'laxer') laxerThan.push(name);
  }
  for (const judge of judges) {
    const isRead = await isClear(bytes, judge, quietMs);
    if (!isRead) kinds.push(`${judge.name} takes what was passed on for something else`);
  }
  return { kinds, isPassedOn, laxerThan };
}

type Ours = { opinion: Opinion; recorded: Recorded; isRouted: boolean };

/**
 * A host that only we do not know is answered by us, and passed on by them. A method that llhttp does not know is refused by
 * it, behind the others too: whether they took it cannot be told from what came of it.
 */
function isComparable({ isRouted, opinion }: Ours): boolean {
  return isRouted && opinion.requests.every(({ method }) => METHODS.includes(method));
}

async function ask({ port, recorder }: Subject, said: string, quietMs: number): Promise<Ours> {
  const { answer, isClosed } = await talk(port, [said], { quietMs });
  const recorded = recorder.take();
  const end = isRefusal(answer) ? 'refused' : isClosed ? 'closed' : 'waiting';
  return {
    opinion: { requests: recorded.requests.map(plain), end },
    recorded,
    isRouted: !answer.includes('unknown-host'),
  };
}

/** What went on, as whoever gets it reads it: the same requests, and then the next one. */
async function isClear(connections: readonly string[], judge: Judge, quietMs: number): Promise<boolean> {
  for (const bytes of connections) {
    const { requests, rest } = readRequests(bytes);
    // Cut off by us, because the client was.
    if (rest !== '') continue;
    const taken = requests.map(plain);
    // The sentinel is not read behind what ends the connection.
    const ends = requests.some(({ fields }) =>
      fields.some(([name, value]) => name === 'connection' && /close/i.test(value)),
    );
    const wanted: Opinion = { requests: ends ? taken : [...taken, { method: 'GET', body: '' }], end: 'closed' };
    if (difference(wanted, await judge.read(bytes + sentinel, quietMs)) === 'split') return false;
  }
  return true;
}

function plain({ method, body }: ReadRequest): Taken {
  return { method, body };
}

function isMarked({ fields }: ReadRequest): boolean {
  return fields.filter(([name]) => name === 'x-request-id').length === 1;
}

function isSentinel({ target }: ReadRequest): boolean {
  return target === '/sentinel';
}
