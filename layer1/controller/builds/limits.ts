/**
 * How much may a build take? Variables of builds (`flynn runner env`), the same for all apps. Memory and processes are the host's
 * to hold; the rest the builder holds itself, which can say what was too much, and the host a little later.
 */
import { durationMs, integer, loadConfig } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';

const unitBytes = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 } as const;
type Unit = keyof typeof unitBytes;

const isUnit = (text: string): text is Unit => text in unitBytes;

/** "512MB", "2 GB", "1g", or bytes; a thousand is 1024. */
export const byteSize = z.string().transform((text, context) => {
  const [, amount, unit = ''] = /^(\d{1,15}(?:\.\d{1,3})?) ?([kmg]?)(?:i?b)?$/i.exec(text.trim()) ?? [];
  const known = unit.toUpperCase();
  if (amount === undefined || !isUnit(known) || Number(amount) === 0) {
    context.addIssue({ code: 'custom', message: 'expected a size like 512MB or 2GB' });
    return z.NEVER;
  }
  return Math.round(Number(amount) * unitBytes[known]);
});

export const buildLimitsSchema = z.object({
  /** Default: what the process type `build` of the builder has. */
  FLYNN_BUILD_MEMORY: byteSize.optional(),
  /** Processes and threads at once. */
  FLYNN_BUILD_PIDS: integer.pipe(z.int().min(64)).default(1024),
  /** What it may write: source, packages, tools, caches. */
  FLYNN_BUILD_DISK: byteSize.default(10 * unitBytes.G),
  FLYNN_BUILD_TIMEOUT: durationMs.pipe(z.int().min(1_000)).default(30 * 60_000),
  /** What it may print. */
  FLYNN_BUILD_OUTPUT: byteSize.default(16 * unitBytes.M),
  /** Per app, packed. */
  FLYNN_BUILD_CACHE: byteSize.default(unitBytes.G),
  /** Packed, with its runtimes. */
  FLYNN_SLUG_SIZE: byteSize.default(unitBytes.G),
  /** How far an app may raise its own. Default: not at all. */
  FLYNN_BUILD_MEMORY_MAX: byteSize.optional(),
  FLYNN_BUILD_DISK_MAX: byteSize.optional(),
  FLYNN_BUILD_TIMEOUT_MAX: durationMs.pipe(z.int().min(1_000)).optional(),
});

/** All that a build can be told beside its limits. */
export const buildSettingsSchema = buildLimitsSchema.extend({
  /** Debian's archive, for the languages that come from it. Default: the one the builder's image was made from. */
  FLYNN_DEBIAN_MIRROR: z.url().optional(),
  /** Debian's security updates, where FLYNN_DEBIAN_MIRROR is set. */
  FLYNN_DEBIAN_SECURITY_MIRROR: z.url().optional(),
});

/** `invalid` names the variable that cannot be read. */
export function buildLimitsOf(env: Readonly<Record<string, string>>): z.output<typeof buildLimitsSchema> {
  const names = Object.keys(buildLimitsSchema.shape);
  const given = Object.entries(env).filter(([name]) => names.includes(name));
  return loadConfig(buildLimitsSchema, Object.fromEntries(given));
}

export const buildLimitNames = ['memory', 'time', 'disk'] as const;
export type BuildLimitName = (typeof buildLimitNames)[number];

/**
 * `value` is what the app's builds get, `isOwn` if the app asks for it, and `most` how far it may raise it: bytes, or
 * milliseconds.
 */
export type BuildLimit = { value: number; most: number; isOwn: boolean };
export type AppBuildLimits = Record<BuildLimitName, BuildLimit>;

/** Where an app's wish is, in its metadata. */
export const buildMeta: Readonly<Record<BuildLimitName, string>> = {
  memory: 'build.memory',
  time: 'build.time',
  disk: 'build.disk',
};
const readers = { memory: byteSize, time: durationMs.pipe(z.int().min(10_000)), disk: byteSize };
const leastBytes = 16 * unitBytes.M;

/** Throws `invalid` for a wish that cannot be read, or that the cluster does not allow. */
export function appBuildLimits(
  env: Readonly<Record<string, string>>,
  meta: Readonly<Record<string, string>>,
  defaultMemoryBytes: number,
): AppBuildLimits {
  const all = buildLimitsOf(env);
  const memory = all.FLYNN_BUILD_MEMORY ?? defaultMemoryBytes;
  return {
    memory: limitOf('memory', meta, { value: memory, most: all.FLYNN_BUILD_MEMORY_MAX }),
    time: limitOf('time', meta, { value: all.FLYNN_BUILD_TIMEOUT, most: all.FLYNN_BUILD_TIMEOUT_MAX }),
    disk: limitOf('disk', meta, { value: all.FLYNN_BUILD_DISK, most: all.FLYNN_BUILD_DISK_MAX }),
  };
}

function limitOf(
  name: BuildLimitName,
  meta: Readonly<Record<string, string>>,
  cluster: { value: number; most: number | undefined },
): BuildLimit {
  const most = Math.max(cluster.value, cluster.most ?? 0);
  const text = meta[buildMeta[name]];
  if (text === undefined) return { value: cluster.value, most, isOwn: false };
  const { data: value, error } = readers[name].safeParse(text);
  const hint = `flynn limit build ${name}=${name === 'time' ? '20m' : '2GB'}`;
  if (value === undefined) {
    throw new FlynnError(
      'invalid',
      `${name}=${text} is no limit of builds: ${error?.issues[0]?.message ?? ''}; ${hint}`,
    );
  }
  if (name !== 'time' && value < leastBytes) {
    throw new FlynnError('invalid', `${name}=${text}: no build gets by with less than 16MB; ${hint}`);
  }
  if (value > most) {
    const variable = {
      memory: 'FLYNN_BUILD_MEMORY_MAX',
      time: 'FLYNN_BUILD_TIMEOUT_MAX',
      disk: 'FLYNN_BUILD_DISK_MAX',
    }[name];
    throw new FlynnError(
      'invalid',
      `${name}=${text} is more than this cluster lets a build have (${amountText(name, most)}): ask for less, or have it raised: flynn runner env set ${variable}=${text}`,
    );
  }
  return { value, most, isOwn: true };
}

/** As one writes it. */
export function amountText(name: BuildLimitName, value: number): string {
  if (name === 'time') return value % 60_000 === 0 ? `${value / 60_000}m` : `${value / 1_000}s`;
  return value % unitBytes.G === 0 ? `${value / unitBytes.G}GB` : `${Math.round(value / unitBytes.M)}MB`;
}
