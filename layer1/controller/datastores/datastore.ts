/** What a datastore's app consists of: pure, of its appliance and what was asked for. */
import { randomBytes } from 'node:crypto';
import type { Appliance, Login, MemberCheck } from '@flynn/appliances/appliance';
import { zone } from '@flynn/discovery/names';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { amountOf, bytesOf } from '../processes/amounts.ts';
import { type Process, processSchema } from '../processes/process.ts';
import { maxMembers } from './names.ts';

const cpuMillis = 1_000;
/** A copy of much data takes its time, and nobody is served worse for that. */
const longestStartMs = 24 * 3_600_000;
/** A primary writes all it has to its disk first. */
const stopTimeoutMs = 120_000;
/** Clients look for who serves what as often. */
const roleIntervalMs = 1_000;

/** `flynn resource add postgres --config members=3 --config memory=1GB`: words, as the command has them. */
const commonConfig = {
  /** Default: two, where there are two hosts. */
  members: z.coerce.number().int().min(1).max(maxMembers).optional(),
  /** Of each member. */
  memory: amountOf('memory').optional(),
  /** What another had at a moment is in it from the beginning: see origin.ts. */
  from: z.string().optional(),
  at: z.string().optional(),
};

/** A moment of another datastore, which is a resource. */
export type Origin = Readonly<{ from: string; at: string }>;
export type Wanted = Readonly<{
  members: number;
  memoryBytes: number;
  env: Readonly<Record<string, string>>;
  origin?: Origin;
}>;

/** What somebody asks for, with what they leave out. `hosts`: how many take jobs. Throws `invalid`. */
export function wantedOf(appliance: Appliance, config: unknown, hosts: number): Wanted {
  const { options } = appliance;
  const own = Object.entries(options).map(([name, { values }]) => [name, z.enum(values).optional()] as const);
  const { data: common, error } = z.looseObject(commonConfig).safeParse(config);
  const { data: chosen, error: ownError } = z.strictObject(Object.fromEntries(own)).safeParse(withoutCommon(config));
  if (common === undefined || chosen === undefined) {
    const issues = [...(error?.issues ?? []), ...(ownError?.issues ?? [])];
    const where = issues.map(({ path, message }) => `${path.join('.') || 'config'}: ${message}`).join('; ');
    const more = Object.entries(options).map(([name, { values }]) => ` and --config ${name}=${values[0] ?? ''}`);
    const taken = `--config members=2 and --config memory=1GB${more.join('')}${ofAnother(appliance)}`;
    throw new FlynnError('invalid', `${appliance.name} takes ${taken} (${where})`);
  }
  const members = common.members ?? Math.max(1, Math.min(2, hosts));
  if (members > Math.max(1, hosts)) {
    throw new FlynnError(
      'invalid',
      `members=${members}: each is on another host, and ${hosts === 1 ? 'there is one' : `${hosts} take jobs`}: add hosts first, or ask for fewer`,
    );
  }
  const memoryBytes = common.memory === undefined ? appliance.defaultMemoryBytes : bytesOf(common.memory);
  if (memoryBytes < appliance.leastMemoryBytes) {
    const least = Math.ceil(appliance.leastMemoryBytes / 1024 ** 2);
    throw new FlynnError('invalid', `memory=${common.memory}: ${appliance.name} takes ${least}MB at least`);
  }
  const env = Object.entries(options).flatMap(([name, { variable }]): [string, string][] => {
    const value = chosen[name];
    return value === undefined ? [] : [[variable, value]];
  });
  const { from, at } = common;
  if ((from === undefined) !== (at === undefined)) {
    throw new FlynnError('invalid', 'from=NAME and at=TIME go together: whose database it begins with, and as of when');
  }
  const origin = from === undefined || at === undefined ? undefined : { from, at };
  return { members, memoryBytes, env: Object.fromEntries(env), ...(origin === undefined ? {} : { origin }) };
}

/** Where a kind can be gone back to a moment. */
function ofAnother({ history }: Appliance): string {
  return history === undefined ? '' : ', and from=NAME with at=TIME';
}

function withoutCommon(config: unknown): unknown {
  if (config === null || typeof config !== 'object') return config;
  return Object.fromEntries(Object.entries(config).filter(([name]) => !Object.hasOwn(commonConfig, name)));
}

/** The name in discovery of what members with a role serve. */
export function roleService(appName: string, role: string): string {
  return `${appName}-${role}`;
}

/** Where who has it serves. */
export function hostOf(appName: string, role: string): string {
  return `${roleService(appName, role)}.${zone}`;
}

/** What apps that have it may reach. */
export function servedOf(appliance: Appliance, appName: string): string[] {
  return Object.keys(appliance.roles).map((role) => roleService(appName, role));
}

export function newSecrets({ secrets }: Appliance): Record<string, string> {
  return Object.fromEntries(secrets.map((name) => [name, newPassword()]));
}

/** Random; a word of its own in any file, URL or shell. */
function newPassword(): string {
  return randomBytes(24).toString('hex');
}

/** What apps get that log in so. */
export function variablesOf(appliance: Appliance, appName: string, login: Login): Record<string, string> {
  return appliance.variables({ login, host: (role) => hostOf(appName, role) });
}

/** The one whose turn it is after that one. */
export function nextLogin({ logins }: Appliance, { name }: Login): Login {
  return { name: logins.after(name), password: newPassword() };
}

export function memberProcess(
  appliance: Appliance,
  appName: string,
  { memoryBytes }: Pick<Wanted, 'memoryBytes'>,
): Process {
  const { health, port, roles, leadingRole, user, dataPath } = appliance;
  const often = { intervalMs: roleIntervalMs, timeoutMs: roleIntervalMs };
  const own = { restartAfterMs: 0, startTimeoutMs: longestStartMs, threshold: 3 };
  return processSchema.parse({
    ports: [
      {
        port,
        roles: Object.entries(roles).map(([role, check]) => {
          const named = { name: roleService(appName, role), check: { ...httpCheck(check), ...often } };
          // A copy that has all is ready to take over by then: once, and not with each member.
          return role === leadingRole ? Object.assign(named, { goesLast: true }) : named;
        }),
      },
      {
        port: health.port,
        service: { name: `${appName}-${appliance.name}`, check: { ...httpCheck(health), ...own } },
        // Members ask each other before they are well, too.
        roles: [{ name: `${appName}-member`, check: { ...httpCheck(appliance.alive), intervalMs: roleIntervalMs } }],
      },
    ],
    volumes: [{ name: 'data', path: dataPath }],
    constraints: [{ attribute: 'host', operator: 'distinct' }],
    memoryBytes,
    cpuMillis,
    user,
    stopTimeoutMs,
    // Its clients' connections are for as long as they like.
    drainMs: 0,
  });
}

const ownFields: ReadonlySet<string> = new Set<keyof Process>([
  'memoryBytes',
  'cpuMillis',
  'pidsLimit',
  'filesLimit',
  'tempDiskBytes',
  'constraints',
  'env',
]);

/** Of a member's process: what people set. All else is the platform's. */
export function isOwnField(field: string): boolean {
  return ownFields.has(field);
}

/** What this version of the platform makes of a member, with what people have set. */
export function renewedProcess(appliance: Appliance, appName: string, before: Process): Process {
  const own = Object.entries(before).filter(([field]) => isOwnField(field));
  return processSchema.parse({ ...memberProcess(appliance, appName, before), ...Object.fromEntries(own) });
}

function httpCheck({ port, path }: MemberCheck) {
  return { type: 'http' as const, port, path, status: 200 };
}
