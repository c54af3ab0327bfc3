/** How much may a job take that runs once: a command, a cron line, a release's script? Kept in the app's metadata. Pure. */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { byteSize } from '../builds/limits.ts';

/** `run`: commands (`flynn run`); `cron`: lines of its schedule; `release`: what is run around a deployment. */
export const oneOffKinds = ['run', 'cron', 'release'] as const;
export type OneOffKind = (typeof oneOffKinds)[number];

/** Of one that says nothing. */
export const oneOffDefaults = { memoryBytes: 1024 ** 3, cpuMillis: 1_000 } as const;

type Meta = Readonly<Record<string, string>>;
type Limits = { memoryBytes: number; cpuMillis: number };
export type OneOffLimits = Readonly<Record<OneOffKind, Readonly<Limits>>>;

const millis = z
  .string()
  .regex(/^\d{1,7}$/, 'expected thousandths of a processor, like 500')
  .transform(Number)
  .pipe(z.int().max(1_000_000, 'expected at most 1000000 thousandths of a processor'));

/** Where an app's wish is. */
export const oneOffMeta = {
  memory: (kind: OneOffKind) => `${kind}.memory`,
  cpu: (kind: OneOffKind) => `${kind}.cpu`,
} as const;

/** What cannot be read, which nothing writes, counts as not said: a schedule is not to stand still for it. */
export function oneOffLimitsOf(meta: Meta): OneOffLimits {
  const of = (kind: OneOffKind): Limits => ({
    memoryBytes: byteSize.safeParse(meta[oneOffMeta.memory(kind)]).data ?? oneOffDefaults.memoryBytes,
    cpuMillis: millis.safeParse(meta[oneOffMeta.cpu(kind)]).data ?? oneOffDefaults.cpuMillis,
  });
  return { run: of('run'), cron: of('cron'), release: of('release') };
}

/** Throws `invalid` for a wish that cannot be read, and was not there `before`. */
export function checkOneOffLimits(meta: Meta, before: Meta = {}): void {
  const readers = { memory: byteSize, cpu: millis };
  for (const kind of oneOffKinds) {
    for (const name of ['memory', 'cpu'] as const) {
      const key = oneOffMeta[name](kind);
      const text = meta[key];
      if (text === undefined || text === before[key]) continue;
      const issue = readers[name].safeParse(text).error?.issues[0];
      if (issue === undefined) continue;
      const hint = `flynn limit ${kind} ${name}=${name === 'memory' ? '2GB' : '500'}`;
      throw new FlynnError('invalid', `${key}=${text} is no limit of jobs that run once: ${issue.message}; ${hint}`);
    }
  }
}
